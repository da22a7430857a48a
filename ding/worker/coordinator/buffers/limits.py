"""Limits of pushes to a coordinator's buffer and of samples from it."""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ding.data.replay.limits import SampleRatioLimiter, ThruputController, controller_of, limiter_of

_SAVED_UP_ROWS = 1000


class SampleBudget:
    """Bounds the number of samples per inserted row.

    Each inserted row allows ``per_insert`` samples. Unused samples accumulate up to those of `_SAVED_UP_ROWS` rows, so
    that a learner stops soon after its collectors have gone. Not thread-safe.

    Args:
        per_insert: ``None``: unlimited.
    """

    def __init__(self, per_insert: float | None) -> None:
        if per_insert is not None and not per_insert > 0:
            raise ValueError(f"replay_buffer.max_samples_per_insert must be None or positive, found {per_insert!r}")
        self._per_insert = math.inf if per_insert is None else float(per_insert)
        self._left = 0.0

    def inserted(self, rows: int) -> None:
        self._left = min(self._left + rows * self._per_insert, max(rows, _SAVED_UP_ROWS) * self._per_insert)

    def sampled(self, rows: int) -> None:
        self._left -= rows

    @property
    def left(self) -> int:
        """Number of samples that may be drawn now."""
        return int(min(self._left, sys.maxsize))


def admitted(rows: Sequence[int], controller: ThruputController | None, limiter: SampleRatioLimiter | None) -> int:
    """Return how many chunks with these row counts, from the first on, the throughput limits allow now."""
    limits = [limit for limit in (controller, limiter) if limit is not None]
    total = 0
    for number, count in enumerate(rows):
        total += count
        if not all(limit.can_push(total)[0] for limit in limits):
            return number
    return len(rows)


class JointLimits:
    """Throughput limits of a buffer with several shards. Not thread-safe.

    Args:
        cfg: Config of an advanced buffer, and ``max_samples_per_insert``.
        size: Total capacity, in rows.
    """

    def __init__(self, cfg: Mapping[str, Any], size: int) -> None:
        control = cfg["thruput_controller"]
        self._controller = controller_of(control)
        self._min_ratio = float(control["sample_min_limit_ratio"])
        self._limiter, _ = limiter_of(cfg, size)
        self._budget = SampleBudget(cfg.get("max_samples_per_insert"))

    def admit(self, rows: Sequence[int]) -> int:
        """Return how many chunks with these row counts, from the first on, may be pushed now."""
        return admitted(rows, self._controller, self._limiter)

    def pushed(self, rows: Sequence[int]) -> None:
        """Count pushed chunks, given their numbers of rows."""
        for count in rows:
            if self._limiter is not None:
                self._limiter.acquire_push(count)
            if self._controller is not None:
                self._controller.add(pushed=count)
        self.restored(sum(rows))

    def restored(self, rows: int) -> None:
        """Count restored rows: they allow samples and are exempt from the limits."""
        self._budget.inserted(rows)

    def batches(self, size: int, wanted: int, held: int) -> int:
        """Return how many of ``wanted`` batches of ``size`` rows may be drawn now from ``held`` rows."""
        if held == 0 or held / size < self._min_ratio:
            return 0
        wanted = min(wanted, self._budget.left // size)
        limits = [limit for limit in (self._controller, self._limiter) if limit is not None]
        while wanted > 0 and not all(limit.can_sample(wanted * size)[0] for limit in limits):
            wanted -= 1
        return max(0, wanted)

    def sampled(self, size: int, batches: int) -> None:
        """Count sampled batches."""
        for _ in range(batches):
            if self._limiter is not None:
                self._limiter.acquire_sample(size)
        if self._controller is not None:
            self._controller.add(sampled=size * batches)
        self._budget.sampled(size * batches)
