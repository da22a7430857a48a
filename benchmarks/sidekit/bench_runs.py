"""Runs of several processes, looked at from outside: started, watched for one window, ended. Standard library only.

The processes write down what they do (`bench_events`); a window of that gives all figures of a run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench_events import FOLDER_VARIABLE, read_events
from bench_figures import figures_of
from bench_side import Op, Side, children_of, tree_cpu_seconds

BEGIN_TIMEOUT_S = 150.0
LOOK_S = 0.2

Processes = Mapping[str, "subprocess.Popen[bytes]"]


def run_side(
    command: Sequence[str],
    work: dict[str, Any],
    warm_up_s: float,
    window_s: float,
    names: Sequence[str] = ("flow", "collect"),
    stop_s: float = 1.0,
    check: Callable[[dict[str, float]], None] = lambda figures: None,
) -> Side:
    """Start a run and wait until its learner learns; its operations give the figures of one window.

    Args:
        command: starts the run; its processes find the folder of the events in their environment.
        work: of the side.
        warm_up_s: seconds from the first update to the window.
        window_s: its length.
        names: of the operations; all give the same figures.
        stop_s: how long the run may take to end after SIGTERM.
        check: raises when the figures lack something.
    """
    folder = Path("events").resolve()
    folder.mkdir()
    # In the process group of this side, which the runner ends as a whole in the worst case.
    process = subprocess.Popen(list(command), env={**os.environ, FOLDER_VARIABLE: str(folder)})
    processes = {"run": process}
    wait_until(lambda: any(event.kind == "update" for event in read_events(folder)), processes)

    def look() -> dict[str, float]:
        time.sleep(warm_up_s)
        cpu, began = cpu_by_pid(process.pid), time.monotonic()
        time.sleep(window_s)
        ended, cpu_after = time.monotonic(), cpu_by_pid(process.pid)
        # A process that came or went meanwhile is known from one side only.
        spent = {pid: seconds - cpu.get(pid, 0.0) for pid, seconds in cpu_after.items()}
        if process.poll() is not None:
            raise RuntimeError(f"the run ended with exit code {process.returncode} before its window did")
        figures = figures_of(list(read_events(folder)), began, ended, spent)
        check(figures)
        return figures

    return Side(once(look, *names), work, lambda: end(processes, stop_s))


def once(measure: Callable[[], dict[str, float]], *names: str) -> dict[str, Op]:
    """Operations that measure at the first call to one of them; other calls give the figures of the same window."""
    kept: dict[str, float] = {}

    def step() -> dict[str, float]:
        kept.update(measure() if not kept else {})
        return kept

    return {name: Op(step, dict, single=True) for name in names}


def wait_until(there: Callable[[], bool], processes: Processes) -> None:
    """Wait for a condition; if a process ends first, or it takes too long, all are ended and an error is raised."""
    deadline = time.monotonic() + BEGIN_TIMEOUT_S
    while not there():
        ended = [name for name, process in processes.items() if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            end(processes, 1.0)
            raise RuntimeError(f"{ended[0]} ended" if ended else f"nothing happened within {BEGIN_TIMEOUT_S:.0f} s")
        time.sleep(LOOK_S)


def cpu_by_pid(root: int) -> dict[int, float]:
    """CPU seconds of each living process of a tree, without those of its children."""
    return {pid: tree_cpu_seconds(pid, children=False) for pid in tree(root)}


def tree(root: int) -> list[int]:
    """A process and its living descendants."""
    return [root, *(pid for child in children_of(root) for pid in tree(child))]


def end(processes: Processes, stop_s: float) -> None:
    """Ask the processes to end; kill what is left of them and their descendants after ``stop_s``, by id."""
    pids = [pid for process in processes.values() for pid in tree(process.pid)]
    for process in reversed(list(processes.values())):
        process.terminate()
    deadline = time.monotonic() + stop_s
    for process in processes.values():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    session = os.getsid(0)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)
