"""``--quick``: this checkout beside its parent commit, own sides only, in about three minutes."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import suites
from benchmarks._peers import ROOT
from benchmarks._plan import BEFORE, ONE_THREAD, Measurement
from benchmarks._report import number
from benchmarks._runner import run_measurement

BUDGET_S = 180.0
SECONDS_FACTOR = 0.4
# Below this a difference is never called one, however quiet the machine.
LEAST_DIFFERENCE = 0.05


class NoParent(RuntimeError):
    """The commit to compare with cannot be checked out."""


def quick_measurements(other: Path) -> list[Measurement]:
    """The measurements that are part of the quick form, each against another checkout."""
    found: dict[str, Measurement] = {}
    for name in suites.DEFAULT_SUITES:
        for one in suites.load(name).measurements():
            if one.quick:
                found[one.name] = one.against_checkout(other)
    return list(found.values())


def run_quick(parent: str, rounds: int, say: Callable[[str], None], budget_s: float = BUDGET_S) -> int:
    """Compare with a commit; returns 1 when something became slower by more than the noise, or did not run."""
    with parent_checkout(parent) as other:
        start, longest, slower, results, failed = time.monotonic(), 0.0, [], 0, 0
        for one in quick_measurements(other):
            began = time.monotonic()
            if results and began - start + longest > budget_s:
                say(f"left out for lack of time: {one.name}")
                continue
            result = run_measurement(one, ONE_THREAD, rounds, SECONDS_FACTOR, lambda _: None)
            longest = max(longest, time.monotonic() - began)
            results += 1
            for line, is_slower in compared(result):
                say(line)
                if is_slower:
                    slower.append(line)
            for label, error in result["errors"].items():
                failed += BEFORE not in label
                say(f"{one.name}: {label} did not run: {error.splitlines()[-1]}")
        seconds = time.monotonic() - start
    say(f"{results} measurements in {seconds:.0f} s, {len(slower)} slower by more than the noise" + ":" * bool(slower))
    for line in slower:
        say(f"  {line}")
    return 1 if slower or failed else 0


def compared(result: dict[str, Any]) -> list[tuple[str, bool]]:
    """One line per operation and own side, and whether it became slower by more than the noise.

    By wall time and by CPU time: slower by either counts. On a machine with more to do than it has cores, wall time
    says little, and only CPU time counts where there is one.
    """
    lines = []
    busy = max(result["load"], default=0.0) > (os.cpu_count() or 1)
    for op in result["ops"]:
        figures = op["figures"]
        for label, now in figures.items():
            before = figures.get(label + BEFORE)
            if before is None:
                continue
            control = {"wall": op["noise"] or 0.0, "cpu": op["cpu_noise"] or 0.0}
            changes = {kind: _change(now[kind], before[kind], control[kind]) for kind in _kinds(op, now)}
            counting = [changes["cpu"]] if busy and "cpu" in changes else changes.values()
            worse = any(by > chance if op["lower"] else by < -chance for by, chance in counting)
            said = ", ".join(
                f"{change:+.1%} by {kind} (noise {noise:.1%})" for kind, (change, noise) in changes.items()
            )
            unit = op["unit"].replace("_", " ")
            lines.append((f"{result['name']} / {op['title']} / {label}: {number(now['median'])} {unit}, {said}", worse))
    return lines


def _kinds(op: dict[str, Any], figure: dict[str, Any]) -> tuple[str, ...]:
    """Values that are no rates have the same figure twice."""
    return ("wall",) if figure["wall"] == figure["cpu"] else ("wall", "cpu")


def _change(now: Sequence[float], before: Sequence[float], control: float) -> tuple[float, float]:
    """``(change, noise)``: the median over the rounds of ``now / before - 1``, and what may be chance.

    The noise is the largest of: what the same side twice differs by, half the distance of the quartiles of the
    changes, and the least difference that is ever called one.
    """
    changes = [a / b - 1 for a, b in zip(now, before) if b > 0]
    spread = 0.0
    if len(changes) > 1:
        low, _, high = statistics.quantiles(changes, n=4, method="inclusive")
        spread = (high - low) / 2
    return statistics.median(changes), max(control, spread, LEAST_DIFFERENCE)


@contextlib.contextmanager
def parent_checkout(commit: str) -> Iterator[Path]:
    """The files of a commit in a worktree of their own, removed at the end.

    Raises:
        NoParent: git cannot check it out.
    """
    with tempfile.TemporaryDirectory(prefix="ding-bench-parent-") as folder:
        path = Path(folder) / "checkout"
        _git("worktree", "add", "--detach", str(path), commit)
        try:
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def _git(*args: str) -> None:
    try:
        subprocess.run(["git", *args], cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoParent(f"git {' '.join(args[:2])} failed: {getattr(error, 'stderr', error)}") from error
