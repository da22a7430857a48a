"""Timing of each middleware."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from types import GeneratorType
from typing import Any

import numpy as np

from ding.framework._phases import name_of
from ding.framework.task import current_task

logger = logging.getLogger(__name__)


class StepTimer:
    """Wrapper for ``task.use_wrapper`` that logs the time of each middleware, both phases combined, in milliseconds.

    Args:
        print_per_step: Iterations between two log lines.
        smooth_window: Number of log lines to average over.
    """

    def __init__(self, print_per_step: int = 1, smooth_window: int = 10) -> None:
        self.print_per_step = print_per_step
        self.smooth_window = smooth_window
        self.records: dict[str, deque[float]] = {}

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        name = name_of(fn)
        records = self.records.setdefault(name, deque(maxlen=self.print_per_step * self.smooth_window))

        def timed(ctx: Any) -> "Iterator[None] | None":
            start = perf_counter()
            phases = fn(ctx)
            if not isinstance(phases, GeneratorType):
                self._record(name, records, perf_counter() - start, ctx)
                return None
            return self._timed_phases(name, records, phases, perf_counter() - start, ctx)

        timed.__name__ = name
        return timed

    def _timed_phases(
        self, name: str, records: "deque[float]", phases: Any, spent_s: float, ctx: Any
    ) -> Iterator[None]:
        start = perf_counter()
        opened = next(phases, self) is not self
        spent_s += perf_counter() - start
        if opened:
            yield
            start = perf_counter()
            next(phases, None)
            spent_s += perf_counter() - start
        self._record(name, records, spent_s, ctx)

    def _record(self, name: str, records: "deque[float]", spent_s: float, ctx: Any) -> None:
        records.append(spent_s * 1000)
        if ctx.total_step % self.print_per_step == 0:
            node = current_task().router.node_id or 0
            logger.info("[StepTimer %s] node %s: %.2f ms, mean %.2f ms", name, node, records[-1], np.mean(records))
