"""Ctrl-C and SIGTERM as a request to stop cleanly.

The first signal asks: a section marked `interruptible` (collecting, evaluating) is left at once by an exception; the
update of a network is finished first, so that the checkpoint that follows is whole. A second signal ends the process
on the spot, by the signal's own default action.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

#: What asks a run to stop.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE = "stopping; once more ends it at once"


def write_notice() -> None:
    """Say on standard error that the run is about to stop; safe inside a signal handler."""
    with contextlib.suppress(OSError):
        # Not through logging or print: their buffers may be in the middle of a write in this very thread.
        os.write(2, f"\n{NOTICE}\n".encode())


class RunInterrupted(SystemExit):
    """A run was stopped by a signal, after it was checkpointed and closed. The exit code is 128 + signal number.

    Attributes:
        signum: The signal.
        checkpoint: Path of the checkpoint, or None when the run had not begun.
    """

    def __init__(self, signum: int, checkpoint: str | None = None) -> None:
        super().__init__(128 + signum)
        self.signum = signum
        self.checkpoint = checkpoint


class StopNow(BaseException):
    """Leaves an interruptible section; caught by the loop, never by code in between."""


class StopSignals:
    """Context manager that owns the handlers of SIGINT and SIGTERM while a run lasts.

    Handlers belong to the main thread; in another thread nothing is installed and `requested` stays None.

    Args:
        notify: Called inside the handler of the first signal, to say that the run is about to stop.
    """

    def __init__(self, notify: Callable[[], None] = write_notice) -> None:
        self._notify = notify
        self.requested: int | None = None
        self._interruptible = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self.requested is not None:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
            return
        self.requested = signum
        self._notify()
        if self._interruptible:
            raise StopNow

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A section that a signal may leave at any point.

        Raises:
            StopNow: A signal came, before or inside.
        """
        self._interruptible = True
        try:
            if self.requested is not None:
                raise StopNow
            yield
        finally:
            self._interruptible = False
