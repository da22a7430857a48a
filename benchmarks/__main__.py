"""``python -m benchmarks``: measure the project beside its peers and write tables.

python -m benchmarks                       every suite
python -m benchmarks collector buffers     some suites
python -m benchmarks --quick               3 minutes: this checkout beside its parent commit
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import suites
from benchmarks._plan import MODES, Measurement
from benchmarks._plots import NoMatplotlib, write_chart
from benchmarks._runner import run_measurement
from benchmarks._store import RESULTS, make_document, save

THREADS = {"1": MODES[:1], "default": MODES[1:], "both": MODES}


def command(*words: str) -> int:
    """`main` with further words of the command line; SIGTERM ends the sides and removes what is temporary."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return main([*words, *sys.argv[1:]])


def main(argv: Sequence[str] | None = None) -> int:
    """Run suites; returns the exit code: 0 when every own side ran."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = _parser().parse_args(words)
    if args.quick:
        from benchmarks._quick import run_quick

        return run_quick(args.parent, args.rounds, _say)
    failed = False
    for name in args.suites or suites.DEFAULT_SUITES:
        failed |= _run_suite(name, args, _command_line(name, args))
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"of {', '.join(suites.SUITES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="compare with the parent commit, own sides only")
    parser.add_argument("--parent", default="HEAD^", help="the commit that --quick compares with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds-factor", type=float, default=1.0, help="lengthen or shorten every round")
    parser.add_argument("--threads", choices=THREADS, default="both")
    parser.add_argument("--only", default="", help="regular expression on the names of measurements")
    parser.add_argument("--list", action="store_true", help="list the measurements and end")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    return parser


def _command_line(suite: str, args: argparse.Namespace) -> str:
    """The command line that measures the same; without the folder of the results, which is this machine's."""
    words = ["python -m benchmarks", suite, f"--rounds {args.rounds}", f"--threads {args.threads}"]
    if args.seconds_factor != 1.0:
        words.append(f"--seconds-factor {args.seconds_factor:g}")
    return " ".join([*words, f"--only '{args.only}'"] if args.only else words)


def _run_suite(name: str, args: argparse.Namespace, command: str) -> bool:
    """Run a suite and write its results; returns whether an own side failed."""
    try:
        suite = suites.load(name)
    except KeyError as error:
        raise SystemExit(str(error.args[0])) from error
    chosen = [one for one in suite.measurements() if re.search(args.only, one.name)]
    if args.list:
        for one in chosen:
            print(f"{name}: {one.name}: {one.title}")
        return False
    results = []
    for measurement in chosen:
        for mode in MODES:
            if mode in measurement.modes and mode in THREADS[args.threads]:
                results.append(run_measurement(measurement, mode, args.rounds, args.seconds_factor, _say))
                _say_result(results[-1])
    if results:
        # What a partial run did not measure again stays as it is.
        partial = bool(args.only) or args.threads != "both"
        names = [one.name for one in suite.measurements()] if partial else None
        file = save(make_document(name, suite.TITLE, results, args.rounds, command), args.out, names)
        _say(
            f"wrote {file.name}, the JSON and the chart beside it" if _draw(file) else f"wrote {file.name} and the JSON"
        )
    return any(_own_failed(one, measurement) for one, measurement in _paired(results, chosen))


def _draw(file: Path) -> bool:
    """The chart beside the table of a suite, from the results that lie there."""
    try:
        write_chart(json.loads(file.with_suffix(".json").read_text(encoding="utf-8")), file.with_suffix(".png"))
    except NoMatplotlib as error:
        _say(f"no chart: {error}")
        return False
    return True


def _paired(results: list[dict[str, Any]], chosen: list[Measurement]) -> list[tuple[dict[str, Any], Measurement]]:
    by_name = {one.name: one for one in chosen}
    return [(result, by_name[result["name"]]) for result in results]


def _own_failed(result: dict[str, Any], measurement: Measurement) -> bool:
    return measurement.contestants[0].label in result["errors"]


def _say_result(result: dict[str, Any]) -> None:
    for op in result["ops"]:
        for label, figure in op["figures"].items():
            ratio = op["ratios"].get(label)
            _say(
                f"    {op['name']:12} {label:28} {figure['median']:>12,.4g} {op['unit']}"
                + _ratio(ratio, op["cpu_ratios"].get(label))
            )
        for target in op["targets"]:
            state = {True: "met", False: "MISSED", None: "not measured"}[target["met"]]
            _say(f"    {op['name']:12} {target['text']}: {state} ({target['measured']})")
    for label, error in result["errors"].items():
        _say(f"    {label} did not run: {error}")


def _ratio(ratio: float | None, by_cpu: float | None) -> str:
    text = "" if ratio is None else f"   ours / theirs {ratio:.3g}"
    return text if by_cpu is None else f"{text}, by CPU time {by_cpu:.3g}"


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(command())
