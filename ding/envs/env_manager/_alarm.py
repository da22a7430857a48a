"""A time limit for a call in the own process."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


def time_limit(seconds: float | None, error: Callable[[], Exception]) -> AbstractContextManager[None]:
    """Raise ``error()`` inside the block when it runs longer than ``seconds``.

    It uses SIGALRM, so it works in the main thread of a POSIX process; elsewhere the block runs without a limit. A
    handler and a timer that were set before are restored.

    Args:
        seconds: the limit, ``None`` for none.
        error: makes the exception.
    """
    return nullcontext() if seconds is None or not can_limit() else _alarm(seconds, error)


@contextmanager
def _alarm(seconds: float, error: Callable[[], Exception]) -> Iterator[None]:
    def on_alarm(signum: int, frame: object) -> None:
        raise error()

    previous_handler = signal.signal(signal.SIGALRM, on_alarm)
    previous_timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *previous_timer)
        signal.signal(signal.SIGALRM, previous_handler)


def can_limit() -> bool:
    """Whether :func:`time_limit` has an effect here."""
    return hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
