"""``python -m benchmarks.task_overhead``: what a task adds to each call of a middleware, in microseconds.

The same middleware, which do nothing, are called by a task and by a plain loop, in turns; the figure is the difference
per call, the median over the rounds. Asked: at most 5 microseconds.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from ding.framework import Context, OnlineRLContext, Task

NUM_MIDDLEWARE = 10
NUM_ITERATIONS = 2_000


def plain(ctx: Context) -> None:
    """One phase."""


def generator(ctx: Context) -> Iterator[None]:
    """Two phases."""
    yield


def by_task(fn: Callable[[Any], Any], num_iterations: int) -> float:
    """CPU seconds of a task."""
    with Task().start(ctx=OnlineRLContext()) as task:
        for _ in range(NUM_MIDDLEWARE):
            task.use(fn)
        start_s = time.process_time()
        task.run(max_step=num_iterations)
        return time.process_time() - start_s


def by_loop(fn: Callable[[Any], Any], num_iterations: int) -> float:
    """CPU seconds of a plain loop over both phases, with a context per iteration."""
    ctx = OnlineRLContext()
    start_s = time.process_time()
    for _ in range(num_iterations):
        opened = [fn(ctx) for _ in range(NUM_MIDDLEWARE)]
        for phases in (*opened, *reversed(opened)):
            if phases is not None:
                next(phases, None)
        ctx = ctx.renew()
    return time.process_time() - start_s


def overhead_us(fn: Callable[[Any], Any], rounds: int, num_iterations: int = NUM_ITERATIONS) -> float:
    """Return the microseconds that a task adds to a call of ``fn``."""
    differences = [by_task(fn, num_iterations) - by_loop(fn, num_iterations) for _ in range(rounds)]
    return statistics.median(differences) / (num_iterations * NUM_MIDDLEWARE) * 1e6


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print(f"overhead of a task per call of a middleware, median of {rounds} rounds (asked: at most 5 us)")
    for fn in (plain, generator):
        print(f"  {fn.__name__:10s} {overhead_us(fn, rounds):6.2f} us")


if __name__ == "__main__":
    main()
