"""Ctrl-C and SIGTERM as requests for a clean stop.

The first signal requests a stop, a second one has its default action and ends the process. Signals within a second of
the first count as the same request, because a terminal, a shell and a service manager may each send one. Only the main
thread can install handlers; in other threads nothing is installed and no stop is ever requested.
"""

import atexit
import contextlib
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

#: Signals that request a stop.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE = "stopping in order; press Ctrl-C again to quit at once"

#: Seconds within which further signals count as the same request.
SAME_WISH_S = 1.0

Handler = Callable[[int, FrameType | None], None]


def write_notice() -> None:
    """Write a notice of the coming stop to standard error; safe inside a signal handler."""
    with contextlib.suppress(OSError):
        # Not through logging or print: this very thread may be in the middle of a write to their buffers.
        os.write(2, f"\n{NOTICE}\n".encode())


class RunInterrupted(SystemExit):
    """A signal stopped the run, after a checkpoint and a clean close. The exit code is 128 + signal number.

    Attributes:
        signum: Number of the signal.
        checkpoint: Path of the checkpoint, or ``None`` if training had not started.
    """

    def __init__(self, signum: int, checkpoint: str | None = None) -> None:
        super().__init__(128 + signum)
        self.signum = signum
        self.checkpoint = checkpoint


def exit_quickly() -> None:
    """Skip the final garbage collections of this process at exit.

    They traverse all objects of all modules and take, with torch, 0.5 of the 0.6 seconds of CPU time of an exit:
    several seconds on a busy machine. Resources that only they would release (a file in a cycle of objects) are not
    closed; the same holds for processes of a fork server.
    """
    atexit.register(gc.freeze)


def first_asks(on_first: Callable[[int], None]) -> Handler:
    """Return a signal handler that calls ``on_first(signum)`` once; a second signal has its default action."""
    first_s: list[float] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        if not first_s:
            first_s.append(time.monotonic())
            on_first(signum)
        elif time.monotonic() - first_s[0] >= SAME_WISH_S:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    return handle


@contextlib.contextmanager
def handling(handler: Handler, numbers: Sequence[signal.Signals] = STOP_SIGNALS) -> Iterator[bool]:
    """Install ``handler`` for the signals within the block; yields whether it is installed (main thread only)."""
    if threading.current_thread() is not threading.main_thread():
        yield False
        return
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield True
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


class SignalInbox:
    """Context manager that collects SIGINT and SIGTERM in ``received``; each makes ``socket`` readable."""

    def __init__(self) -> None:
        self.socket, self._sender = socket.socketpair()
        self.received: list[int] = []
        self._first_s = 0.0
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> "SignalInbox":
        for end in (self.socket, self._sender):
            end.setblocking(False)
            self._ends.callback(end.close)
        if self._ends.enter_context(handling(self._note)):
            before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
            self._ends.callback(signal.set_wakeup_fd, before)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ends.close()

    def drain(self) -> None:
        """Consume the wake-up bytes, so that the next wait blocks."""
        with contextlib.suppress(BlockingIOError):
            while self.socket.recv(64):
                pass

    def _note(self, signum: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if not self.received:
            self._first_s = now_s
            exit_quickly()
        elif now_s - self._first_s < SAME_WISH_S:
            return
        self.received.append(signum)
