"""``python -m benchmarks.hops``: through how many functions and files of the project one pass of a run goes.

Not how long it takes, but how much a reader has to open to follow it. One serial pass is: 8 env steps, a push, a
sample and one update of DQN on CartPole; the median pass of twenty without an evaluation. Functions of other packages
and comprehensions do not count. What one transition of a parallel run goes through: :mod:`benchmarks.parallel_hops`.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import os
import statistics
import sys
import tempfile
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from benchmarks.parallel_hops import LEGS, transition_carriers

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = str(ROOT / "ding") + os.sep
FIRST_PASS = 100
PASSES = 20
CONFIG = "configs/cartpole/cartpole_dqn_config.py"

Calls = collections.Counter[tuple[str, str]]
"""(file below ``ding/``, qualified name of a function) -> number of calls."""


class Tracer:
    """Counts the calls of the project's functions while it is on."""

    def __init__(self) -> None:
        self.calls: Calls = collections.Counter()

    def start(self) -> None:
        self.calls = collections.Counter()
        sys.setprofile(self._event)

    def stop(self) -> Calls:
        sys.setprofile(None)
        return self.calls

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(PACKAGE)
            and not code.co_name.endswith(("comp>", "genexpr>"))
        ):
            name = getattr(code, "co_qualname", code.co_name)
            self.calls[code.co_filename.removeprefix(PACKAGE), name] += 1


def serial_passes() -> list[Calls]:
    """The calls of each of some passes of a serial run."""
    from ding.entry import serial_pipeline
    from ding.worker import SampleSerialCollector

    tracer, passes, seen = Tracer(), [], 0
    collect = SampleSerialCollector.collect

    def traced(collector: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal seen
        if seen > FIRST_PASS:
            passes.append(tracer.stop())
        if seen >= FIRST_PASS:
            tracer.start()
        seen += 1
        return collect(collector, *args, **kwargs)

    config = _load(ROOT / CONFIG)
    config.main_config.policy.learn.update_per_collect = 1
    config.main_config.policy.eval.evaluator.eval_freq = 10**9
    SampleSerialCollector.collect = traced  # type: ignore[method-assign]
    try:
        # One pass more, with whose begin the last one ends.
        env_steps = (FIRST_PASS + PASSES + 1) * config.main_config.policy.collect.n_sample
        serial_pipeline((config.main_config, config.create_config), seed=0, max_env_step=env_steps)
    finally:
        tracer.stop()
        SampleSerialCollector.collect = collect  # type: ignore[method-assign]
    return passes


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def median_pass(passes: list[Calls]) -> Calls:
    """The pass with the median number of functions."""
    middle = statistics.median_low(len(calls) for calls in passes)
    return next(calls for calls in passes if len(calls) == middle)


def report(title: str, calls: Calls, verbose: bool) -> None:
    """Print the counts, per file with ``verbose`` with the functions."""
    by_file: dict[str, list[str]] = collections.defaultdict(list)
    for (file, name), count in calls.items():
        by_file[file].append(f"{name} x{count}")
    for file, names in sorted(by_file.items()):
        print(f"  {file}: {len(names)}" + ("\n    " + "\n    ".join(names) if verbose else ""))
    print(f"{title}: {sum(calls.values())} calls of {len(calls)} functions in {len(by_file)} files")


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hops", description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="name the functions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        report("serial pass", median_pass(serial_passes()), args.verbose)
        carriers = transition_carriers()
        for leg in LEGS:
            calls = {(file, name): count for (own, file, name), count in carriers.items() if own == leg}
            report(f"parallel transition, {leg}", collections.Counter(calls), args.verbose)
        print(f"parallel transition: {len({file for _, file, _ in carriers})} files")
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
