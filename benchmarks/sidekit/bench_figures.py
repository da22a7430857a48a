"""From the events of a parallel run to figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bench_events import Event

# Chunks written later than this before the end of a window had no time to arrive.
SETTLE_S = 1.0


def figures_of(events: Sequence[Event], began: float, ended: float, cpu: Mapping[int, float]) -> dict[str, float]:
    """Rates and latencies of what happened between two times.

    Args:
        events: of all processes, from the start of the run on.
        began: begin of the window, seconds of the monotonic clock.
        ended: its end.
        cpu: CPU seconds that each process used in the window.

    Returns:
        Rates per second, ``*_per_cpu_s`` per CPU second of all processes (env steps: of those that collect),
        ``*_p95_s`` and ``*_median_s`` in seconds, and ``cores_used`` of the whole run. Latencies are left out where
        nothing was timed.
    """
    seconds = ended - began
    inside = [event for event in events if began <= event.time_s < ended]
    totals: Counter[str] = Counter()
    for event in inside:
        totals[event.kind] += event.number
    collecting = {event.pid for event in inside if event.kind in ("env_step", "eval_step")}
    steps = totals["env_step"] + totals["eval_step"]
    cores = sum(cpu.values()) / seconds
    transitions, iterations = totals["push"] / seconds, totals["update"] / seconds
    figures = {
        "transitions_per_s": transitions,
        "train_iters_per_s": iterations,
        "transitions_per_cpu_s": transitions / cores if cores else 0.0,
        "train_iters_per_cpu_s": iterations / cores if cores else 0.0,
        "cores_used": cores,
        **rates_of(steps, seconds, sum(cpu.get(pid, 0.0) for pid in collecting)),
    }
    named = {
        "policy": policy_latencies(events, began, ended),
        "arrival": chunk_latencies(events, "arrived", began, ended),
        "sampling": chunk_latencies(events, "sampled", began, ended),
    }
    for name, found in named.items():
        if found:
            figures[f"{name}_p95_s"] = quantile(found, 0.95)
            figures[f"{name}_median_s"] = quantile(found, 0.5)
    return figures


def rates_of(env_steps: int, seconds: float, cpu_seconds: float) -> dict[str, float]:
    """Env steps per wall second and per CPU second of the processes that collect."""
    rates = {"env_steps_per_s": env_steps / seconds}
    if cpu_seconds > 0:
        rates["env_steps_per_cpu_s"] = env_steps / cpu_seconds
    return rates


def policy_latencies(events: Iterable[Event], began: float, ended: float) -> list[float]:
    """Seconds from the begin of publishing to the end of loading.

    For each version that a collector process loads and has not had before: the versions that it passes over because a
    newer one was there count for nothing, nor does the load of a new task whose policy the process had already.
    """
    published: dict[int, float] = {}
    newest: dict[int, int] = {}
    latencies = []
    for event in sorted(events, key=lambda one: one.time_s):
        if event.kind == "published":
            published[event.number] = event.time_s
        elif event.kind == "loaded" and event.number > newest.get(event.pid, -1):
            newest[event.pid] = event.number
            if began <= event.time_s < ended and event.number in published:
                latencies.append(event.time_s - published[event.number])
    return latencies


def chunk_latencies(events: Iterable[Event], kind: str, began: float, ended: float) -> list[float]:
    """Seconds from the begin of writing a chunk to the first event of a kind, for chunks written in the window.

    A chunk to which that did not happen counts with the time until the end of the window; chunks of its last second
    count for nothing.
    """
    written: dict[str, float] = {}
    happened: dict[str, float] = {}
    for event in events:
        if event.kind == "written" and began <= event.time_s < ended - SETTLE_S:
            written[event.name] = event.time_s
        elif event.kind == kind:
            happened[event.name] = min(event.time_s, happened.get(event.name, math.inf))
    return [happened.get(name, ended) - when for name, when in written.items()]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
