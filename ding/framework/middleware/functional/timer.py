"""Timing of iterations."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

from ding.framework.context import Context

logger = logging.getLogger(__name__)


def epoch_timer(print_per: int = 1, smooth_window: int = 10) -> Callable[[Context], Iterator[Any]]:
    """Return a middleware that logs the time between its forward and backward phase; as the first one, of an iteration.

    Args:
        print_per: Iterations between two log lines.
        smooth_window: Number of log lines to average over.
    """
    times_ms: deque[float] = deque(maxlen=print_per * smooth_window)

    def time_epoch(ctx: Context) -> Iterator[Any]:
        start = perf_counter()
        yield
        times_ms.append((perf_counter() - start) * 1000)
        if ctx.total_step % print_per == 0:
            logger.info("[Epoch Timer] cost: %.2f ms, mean: %.2f ms", times_ms[-1], np.mean(times_ms))

    return time_epoch
