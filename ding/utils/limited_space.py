"""Counters of limited places, such as slots for concurrent tasks."""

import threading

from ding.utils.errors import InvalidArgumentError


class LimitedSpaceContainer:
    """A counter of taken places between ``min_val`` and ``max_val``. All methods are atomic and non-blocking."""

    def __init__(self, min_val: int, max_val: int) -> None:
        if min_val > max_val:
            raise InvalidArgumentError(f"min_val must not be above max_val, got {min_val} and {max_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.cur = min_val
        self._lock = threading.Lock()

    def get_residual_space(self) -> int:
        """Take all free places at once and return their number."""
        with self._lock:
            free = self.max_val - self.cur
            self.cur = self.max_val
            return free

    def acquire_space(self) -> bool:
        """Take one place if one is free; return whether it succeeded."""
        with self._lock:
            if self.cur >= self.max_val:
                return False
            self.cur += 1
            return True

    def release_space(self) -> None:
        """Release one place; the count never falls below ``min_val``."""
        with self._lock:
            self.cur = max(self.min_val, self.cur - 1)

    def increase_space(self) -> None:
        """Add one place to the maximum; ``cur`` is unchanged."""
        with self._lock:
            self.max_val += 1

    def decrease_space(self) -> None:
        """Remove one place from the maximum; ``cur`` is unchanged."""
        with self._lock:
            self.max_val -= 1
