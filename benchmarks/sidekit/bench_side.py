"""What every side of a measurement shares. Runs in each peer's own interpreter: standard library only.

A *side* is a small script that builds one library's part and then serves measurements to the runner. The runner talks
to it by JSON lines, so that sides can take turns (A B A B) without starting anew:

    side -> {"ready": {"versions": {...}, "threads": 1, "work": {...}, "ops": [...]}}
    runner -> {"op": "collect", "seconds": 0.5}      or {"op": "run", "calls": 1}
    side -> {"wall_s": ..., "cpu_s": ..., "calls": ..., "counts": {"env_steps": ...}, "values": {...}}
    runner -> {"quit": true}
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

CHUNK_S = 0.002


class Op(NamedTuple):
    """One thing to measure.

    step: does one unit of work; may return a dict of numbers, which is sent on as ``values``.
    counts: monotone counters of the work done (``{"env_steps": 80}``); read before and after, never during.
    single: the step is long, so call it one by one instead of in chunks.
    """

    step: Callable[[], Any]
    counts: Callable[[], dict[str, int]]
    single: bool = False


class Side(NamedTuple):
    """A side: its operations, what its work is (must be equal on all sides), and how it ends."""

    ops: dict[str, Op]
    work: dict[str, Any]
    close: Callable[[], None] = lambda: None
    warm_calls: int = 3


class Counter:
    """Counts calls: ``Counter(items=64).wrap(fn)`` adds 64 to ``total`` at each call."""

    def __init__(self, items: int = 1) -> None:
        self.items = items
        self.total = 0

    def wrap(self, call: Callable[[], Any]) -> Callable[[], Any]:
        def counted() -> Any:
            call()
            self.total += self.items

        return counted


def op_of_items(call: Callable[[], Any], items: int, unit: str) -> Op:
    """An operation that handles ``items`` per call."""
    counter = Counter(items)
    return Op(counter.wrap(call), lambda: {unit: counter.total})


def count_optimizer_steps() -> Callable[[], int]:
    """Count every torch optimiser step in this process from now on, whatever library makes it.

    Read from the states of the optimisers (all sides use Adam, which counts there): a hook would run at each step, and
    its mere presence makes steps take another way than in a user's run.
    """
    from torch.optim import Optimizer

    optimizers = [item for item in gc.get_objects() if issubclass(type(item), Optimizer)]
    init = Optimizer.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        optimizers.append(self)

    Optimizer.__init__ = noted

    def total() -> int:
        return sum(max((int(state["step"]) for state in one.state.values()), default=0) for one in optimizers)

    before = total()
    return lambda: total() - before


def cpu_seconds() -> float:
    """CPU seconds of this process, its threads and its living child processes (children: Linux only)."""
    return time.process_time() + sum(tree_cpu_seconds(child) for child in children_of(os.getpid()))


def children_of(pid: int) -> list[int]:
    """Living child processes, none where that cannot be known."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        # Not Linux, or the process ended meanwhile.
        return found
    return found


def tree_cpu_seconds(pid: int, children: bool = True) -> float:
    """CPU seconds of a process, and of its living descendants with ``children``; 0 when it is gone (Linux only)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(tree_cpu_seconds(child) for child in children_of(pid)) if children else own


def rss_bytes() -> int:
    """Resident memory of this process, bytes (Linux only)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def versions(*distributions: str) -> dict[str, str]:
    """Versions of python and of those of the distributions that are installed."""
    found = {"python": sys.version.split()[0]}
    for name in ("numpy", "torch", "gymnasium", *distributions):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def serve(build: Callable[[], Side], *distributions: str) -> None:
    """Build a side, announce it, and answer requests until told to quit.

    What libraries print goes to stderr: stdout carries the protocol alone.
    """
    warnings.simplefilter("ignore")
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    side = build()
    for op in side.ops.values():
        if not op.single:
            for _ in range(side.warm_calls):
                op.step()
    gc.collect()
    ready = {"versions": versions(*distributions), "threads": _threads(), "work": side.work, "ops": list(side.ops)}
    channel.write(json.dumps({"ready": ready}) + "\n")
    try:
        for line in sys.stdin:
            request = json.loads(line)
            if "quit" in request:
                break
            channel.write(json.dumps(_measure(side.ops[request["op"]], request)) + "\n")
    finally:
        # Also when the runner is gone: a side may have processes of its own.
        side.close()
    sys.stderr.flush()
    # Some libraries hang in their atexit handlers; everything that matters is closed.
    os._exit(0)


def _threads() -> int:
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else 1


def _measure(op: Op, request: dict[str, Any]) -> dict[str, Any]:
    before = op.counts()
    cpu, start = cpu_seconds(), time.perf_counter()
    calls, values = _run(op, request, start)
    wall = time.perf_counter() - start
    cpu = cpu_seconds() - cpu
    after = op.counts()
    counts = {name: after[name] - before.get(name, 0) for name in after}
    return {"wall_s": wall, "cpu_s": cpu, "calls": calls, "counts": counts, "values": values}


def _run(op: Op, request: dict[str, Any], start: float) -> tuple[int, dict[str, Any]]:
    if "calls" in request or op.single:
        calls, values = int(request.get("calls", 1)), None
        for _ in range(calls):
            values = op.step()
        return calls, values or {}
    calls, chunk, step = 0, 1, op.step
    deadline = start + float(request["seconds"])
    while True:
        chunk_start = time.perf_counter()
        for _ in range(chunk):
            step()
        now = time.perf_counter()
        calls += chunk
        if now >= deadline:
            return calls, {}
        if now - chunk_start < CHUNK_S:
            chunk *= 2


def require_ding_below(root: str | None) -> None:
    """Check that ``import ding`` takes the checkout that is measured (``BENCH_DING_ROOT``), and no installed one."""
    if root is None:
        return
    ding = importlib.import_module("ding")
    if not os.path.realpath(ding.__file__).startswith(os.path.realpath(root) + os.sep):
        raise RuntimeError("import ding does not take the checkout under measurement")
