"""``python -m benchmarks.targets``: every figure that the issues ask for, and what the latest results say of it.

``targets.json`` holds the list. An entry compares the figure of ``subject`` with those of ``against``, or takes the
figure as it is, in every mode of ``modes``. Entries with ``tested_by`` are no speed: a test holds them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._peers import HERE
from benchmarks._report import number
from benchmarks._stats import Summary, paired_ratio
from benchmarks._store import RESULTS, load_latest, made_of

FILE = HERE / "targets.json"
MET, MISSED, NOT_MEASURED, TESTED = "met", "missed", "not measured", "tested"
Results = dict[tuple[str, str], dict[str, Any]]


class Verdict(NamedTuple):
    """What came out of one target: ``measured`` is a ratio, or a figure where nothing is compared."""

    issue: int
    asks: str
    mode: str
    compared: str
    bound: str
    measured: float | None
    state: str
    made: str


def load_targets() -> list[dict[str, Any]]:
    """The entries of ``targets.json``."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def newest(documents: dict[str, dict[str, Any]]) -> Results:
    """The newest result of every measurement and mode, whichever suite it was made in, with how it was made."""
    found: Results = {}
    for document in documents.values():
        for one in document["measurements"]:
            made = made_of(one, document)
            before = found.get((one["name"], one["mode"]))
            if before is None or before["made"]["finished"] < made["finished"]:
                found[one["name"], one["mode"]] = {**one, "made": made}
    return found


def verdicts(documents: dict[str, dict[str, Any]]) -> list[Verdict]:
    """All targets against the newest results, issue by issue."""
    results = newest(documents)
    return [verdict for target in load_targets() for verdict in _judged(target, results)]


def _judged(target: dict[str, Any], results: Results) -> Iterator[Verdict]:
    if "tested_by" in target:
        yield Verdict(target["issue"], target["asks"], "", target["tested_by"], "", None, TESTED, "")
        return
    at_least, at_most = target.get("at_least"), target.get("at_most")
    bound = f"at most {at_most:g}" if at_least is None else f"at least {number(at_least)}"
    for mode in target["modes"]:
        for against in target.get("against", [None]):
            measured = _measured(target, mode, against, results)
            state = NOT_MEASURED
            if measured is not None:
                good = measured <= at_most if at_least is None else measured >= at_least
                state = MET if good else MISSED
            made = results.get((target["measurement"], mode), {}).get("made", {}).get("finished", "")
            compared = target["subject"] if against is None else f"{target['subject']} / {against}"
            yield Verdict(target["issue"], target["asks"], mode, compared, bound, measured, state, made)


def _measured(target: dict[str, Any], mode: str, against: str | None, results: Results) -> float | None:
    ours = figure_of(results, target["measurement"], mode, target["operation"], target["subject"])
    if ours is None:
        return None
    if against is None:
        return ours.median
    theirs = figure_of(results, target["measurement"], mode, target["operation"], against)
    return None if theirs is None else paired_ratio(ours, theirs)


def figure_of(results: Results, measurement: str, mode: str, operation: str, label: str) -> Summary | None:
    """The figures of one side, ``None`` where it was not measured."""
    for op in results.get((measurement, mode), {}).get("ops", ()):
        if op["title"] == operation and label in op["figures"]:
            figure = op["figures"][label]
            return Summary(tuple(figure["wall"]), tuple(figure["cpu"]))
    return None


def table(found: Sequence[Verdict]) -> list[str]:
    """Markdown table of the verdicts."""
    lines = ["| issue | asked | threads | compared | bound | measured | |", "|---|---|---|---|---|---|---|"]
    for one in found:
        measured = "" if one.measured is None else number(one.measured)
        state = one.state if one.state in (MET, TESTED) else f"**{one.state}**"
        lines.append(f"| {one.issue} | {one.asks} | {one.mode} | {one.compared} | {one.bound} | {measured} | {state} |")
    return lines


def counted(found: Sequence[Verdict]) -> str:
    """How many are met, missed, not measured."""
    states = [one.state for one in found]
    counts = [f"{states.count(state)} {state}" for state in (MET, MISSED, NOT_MEASURED)]
    return f"{', '.join(counts)}; {states.count(TESTED)} held by tests"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns 1 when a target is missed or was not measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.targets", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--open", action="store_true", help="only what is missed or was not measured")
    args = parser.parse_args(argv)
    found = verdicts(load_latest(args.results))
    shown = [one for one in found if not args.open or one.state in (MISSED, NOT_MEASURED)]
    print("\n".join([*table(shown), "", counted(found)]))
    return 1 if any(one.state in (MISSED, NOT_MEASURED) for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
