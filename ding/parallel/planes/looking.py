"""Polling with wake-up for readers."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


class Looking:
    """Lets readers poll every ``interval_s``, or at once after a hint. Any thread may call the methods.

    Args:
        interval_s: Poll interval in seconds.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._wake = threading.Condition()
        self._hints = 0
        self._closed = False

    def until_found(self, look: "Callable[[], Found | None]", timeout_s: float) -> "Found | None":
        """Return the first result of ``look`` other than ``None``; ``None`` after ``timeout_s``, or once closed."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            hints = self._hints
            found = look()
            if found is not None:
                return found
            with self._wake:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or self._closed:
                    return None
                self._wake.wait_for(lambda: self._closed or self._hints != hints, min(left_s, self._interval_s))  # noqa: B023

    def hint(self) -> None:
        """Make all readers look at once."""
        with self._wake:
            self._hints += 1
            self._wake.notify_all()

    def close(self) -> None:
        """Make all readers look one last time."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
