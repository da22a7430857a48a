"""An event with two sides: one can wait for it to open and for it to close."""

from __future__ import annotations

import threading


class DblEvent:
    """A flag on which threads can wait in both directions. All methods are atomic."""

    def __init__(self, opened: bool = False) -> None:
        self._opened = bool(opened)
        self._changed = threading.Condition()

    def open(self) -> None:
        """Open it and wake whoever waits for that."""
        self._set(True)

    def close(self) -> None:
        """Close it and wake whoever waits for that."""
        self._set(False)

    def is_open(self) -> bool:
        """Whether it is open now."""
        return self._opened

    def is_close(self) -> bool:
        """Whether it is closed now."""
        return not self._opened

    def wait_for_open(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds (None: without limit) until it is open; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._opened, timeout)

    def wait_for_close(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds (None: without limit) until it is closed; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._opened, timeout)

    def _set(self, opened: bool) -> None:
        with self._changed:
            self._opened = opened
            self._changed.notify_all()
