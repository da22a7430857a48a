"""The window controller of the ratio between pushes and samples."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ding.worker.replay_buffer.errors import BufferConfigError

# What is left of a count after ``window_seconds``.
_LEFT_AFTER_WINDOW = 0.01
_NOTHING = 1e-5


class ThruputController:
    """Refuses pushes or samples that would take the ratio of recent pushes to recent samples out of its limits.

    Both counts fade: after ``window_seconds`` one per cent of them is left. The decay is worked out from the time that
    passed when a count is used, so there is no thread, and nothing happens between calls. Thread-safe; a check and the
    count that follows it are two steps, which a buffer takes within its own lock.

    Args:
        cfg: ``{'push_sample_rate_limit': {'max', 'min'}, 'window_seconds'}``.
        clock: seconds, never going backwards.

    Raises:
        BufferConfigError: a limit or the window makes no sense.
    """

    def __init__(self, cfg: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        limit = cfg["push_sample_rate_limit"]
        self._max, self._min = float(limit["max"]), float(limit["min"])
        self._window = float(cfg["window_seconds"])
        if not 0 <= self._min <= self._max:
            raise BufferConfigError(
                f"push_sample_rate_limit needs 0 <= min <= max, got min {self._min} and max {self._max}"
            )
        if not self._window > 0:
            raise BufferConfigError(f"window_seconds must be positive, got {self._window}")
        self._clock = clock
        self._lock = threading.Lock()
        self._pushes = self._samples = 0.0
        self._seen = clock()

    def _decay(self) -> None:
        now = self._clock()
        if now > self._seen:
            factor = _LEFT_AFTER_WINDOW ** ((now - self._seen) / self._window)
            self._pushes *= factor
            self._samples *= factor
            self._seen = now

    def can_push(self, push_size: int) -> tuple[bool, str]:
        """Whether ``push_size`` more pushes are allowed, and if not, why."""
        with self._lock:
            self._decay()
            if self._samples < _NOTHING:
                return True, "nothing was sampled lately"
            rate = (self._pushes + push_size) / self._samples
            if rate > self._max:
                return (
                    False,
                    f"push({push_size}) would make {rate:.4g} pushes per sample, at most {self._max:g} allowed",
                )
        return True, ""

    def can_sample(self, sample_size: int) -> tuple[bool, str]:
        """Whether ``sample_size`` more samples are allowed, and if not, why."""
        with self._lock:
            self._decay()
            total = self._samples + sample_size
            rate = self._pushes / total if total else float("inf")
            if rate < self._min:
                return (
                    False,
                    f"sample({sample_size}) would leave {rate:.4g} pushes per sample, at least {self._min:g} needed",
                )
        return True, ""

    def add(self, pushed: int = 0, sampled: int = 0) -> None:
        """Count what was done, in one atomic step."""
        with self._lock:
            self._decay()
            self._pushes += pushed
            self._samples += sampled

    @property
    def history_push_count(self) -> float:
        """Faded number of pushes."""
        with self._lock:
            self._decay()
            return self._pushes

    @history_push_count.setter
    def history_push_count(self, count: float) -> None:
        with self._lock:
            self._decay()
            self._pushes = count

    @property
    def history_sample_count(self) -> float:
        """Faded number of samples."""
        with self._lock:
            self._decay()
            return self._samples

    @history_sample_count.setter
    def history_sample_count(self, count: float) -> None:
        with self._lock:
            self._decay()
            self._samples = count

    def close(self) -> None:
        """Nothing to end; for compatibility."""
