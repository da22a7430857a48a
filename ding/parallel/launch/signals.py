"""Ctrl-C and SIGTERM as a request to stop cleanly.

The first signal asks, a second one ends the process on the spot, by the signal's own default action. What comes within
a second of the first is the same wish: a terminal, a shell and a service manager may each send one. Handlers belong to
the main thread: in another one nothing is installed, and nothing is ever requested.
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

#: What asks a run to stop.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE = "stopping in order; press Ctrl-C again to quit at once"

#: Signals that come so soon after the first one are no second wish.
SAME_WISH_S = 1.0

Handler = Callable[[int, FrameType | None], None]


def write_notice() -> None:
    """Write to standard error that the run is about to stop; safe inside a signal handler."""
    with contextlib.suppress(OSError):
        # Not through logging or print: their buffers may be in the middle of a write in this very thread.
        os.write(2, f"\n{NOTICE}\n".encode())


class RunInterrupted(SystemExit):
    """A run was stopped by a signal, after it was checkpointed and closed. The exit code is 128 + signal number.

    Attributes:
        signum: the signal.
        checkpoint: path of the checkpoint, or ``None`` when the run had not begun.
    """

    def __init__(self, signum: int, checkpoint: str | None = None) -> None:
        super().__init__(128 + signum)
        self.signum = signum
        self.checkpoint = checkpoint


def exit_quickly() -> None:
    """Leave out the last garbage collections of this process, which it makes when it exits.

    They go through all objects of all modules and take, with torch, 0.5 of the 0.6 seconds of CPU time of an exit:
    several seconds on a busy machine. What only they would close (a file in a cycle of objects) is not closed;
    processes that a fork server made end so, too.
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
    """Have ``handler`` handle the signals while the block lasts; yields whether it does (in the main thread only)."""
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
        """Take the wake-up bytes, so that the next wait waits."""
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
