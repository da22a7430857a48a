"""``--quick``: this checkout beside its parent commit, own sides only, in about three minutes."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
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
    """Compare with a commit; returns 1 when something became slower by more than the noise."""
    with parent_checkout(parent) as other:
        start, slower, results = time.monotonic(), [], 0
        for one in quick_measurements(other):
            if time.monotonic() - start > budget_s:
                say(f"left out for lack of time: {one.name}")
                continue
            result = run_measurement(one, ONE_THREAD, rounds, SECONDS_FACTOR, lambda _: None)
            results += 1
            for line, is_slower in compared(result):
                say(line)
                if is_slower:
                    slower.append(line)
            for label, error in result["errors"].items():
                say(f"{one.name}: {label} did not run: {error.splitlines()[-1]}")
    say(f"{results} measurements, {len(slower)} slower by more than the noise" + (":" if slower else ""))
    for line in slower:
        say(f"  {line}")
    return 1 if slower else 0


def compared(result: dict[str, Any]) -> list[tuple[str, bool]]:
    """One line per operation and own side, and whether it became slower by more than the noise.

    The noise is the largest of: what the same side twice differs by, and the spread of the two sides.
    """
    lines = []
    for op in result["ops"]:
        figures = op["figures"]
        for label, now in figures.items():
            before = figures.get(label + BEFORE)
            if before is None:
                continue
            change = now["median"] / before["median"] - 1
            noise = max(op["noise"] or 0.0, now["spread"], before["spread"], LEAST_DIFFERENCE)
            worse = change > noise if op["lower"] else change < -noise
            text = f"{result['name']} / {op['title']} / {label}: {number(now['median'])} {op['unit']}, {change:+.1%}"
            lines.append((f"{text} (noise {noise:.1%})", worse))
    return lines


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
