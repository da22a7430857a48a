"""Timers, time limits and a watch dog."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from easydict import EasyDict

from ding.utils.errors import MismatchError


def _synchronize() -> None:
    # is_initialized: before the first CUDA call there is nothing to wait for, and the query would initialise CUDA.
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class EasyTimer:
    """``with timer: ...`` and then ``timer.value``, in seconds.

    Each timer has its own start, so timers may be nested and used in several threads (each timer in one at a time).

    Args:
        cuda: Synchronise with the CUDA device, if any, at both ends. Use False in an inner loop.
    """

    def __init__(self, cuda: bool = True) -> None:
        self._cuda = cuda
        self._start = 0.0
        self.value = 0.0

    def __enter__(self) -> "EasyTimer":
        self.value = 0.0
        if self._cuda:
            _synchronize()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._cuda:
            _synchronize()
        self.value = time.perf_counter() - self._start


class TimeWrapperTime:
    """Wall-clock time spans; each thread has its own start."""

    _local = threading.local()
    _cuda = False

    @classmethod
    def start_time(cls) -> None:
        """Start a span in this thread."""
        timer = EasyTimer(cls._cuda)
        timer.__enter__()
        cls._local.timer = timer

    @classmethod
    def end_time(cls) -> float:
        """Return the seconds since ``start_time`` in this thread.

        Raises:
            RuntimeError: No span was started.
        """
        timer = getattr(cls._local, "timer", None)
        if timer is None:
            raise RuntimeError("end_time was called before start_time in this thread")
        timer.__exit__()
        value: float = timer.value
        return value

    @classmethod
    def wrapper(cls, fn: Callable[..., Any]) -> Callable[..., tuple[Any, float]]:
        """Wrap ``fn`` to return ``(result, seconds)``."""

        def timed(*args: Any, **kwargs: Any) -> tuple[Any, float]:
            with EasyTimer(cls._cuda) as timer:
                result = fn(*args, **kwargs)
            return result, timer.value

        return timed


class TimeWrapperCuda(TimeWrapperTime):
    """Time spans with synchronisation of the CUDA device at both ends."""

    _local = threading.local()
    _cuda = True


def build_time_helper(cfg: EasyDict | None = None, wrapper_type: str | None = None) -> type[TimeWrapperTime]:
    """Return the time wrapper ``'time'`` or ``'cuda'``, named by ``wrapper_type`` or ``cfg.common.time_wrapper_type``.

    Raises:
        ValueError: neither argument is given.
        KeyError: The name is unknown.
    """
    if wrapper_type is None:
        if cfg is None:
            raise MismatchError("build_time_helper needs cfg or wrapper_type")
        wrapper_type = cfg.common.time_wrapper_type
    if wrapper_type == "time":
        return TimeWrapperTime
    if wrapper_type == "cuda":
        return TimeWrapperCuda if torch.cuda.is_available() else TimeWrapperTime
    raise KeyError(f"wrapper_type must be 'time' or 'cuda', got {wrapper_type!r}")


def time_limit(seconds: float | None, error: Callable[[], Exception]) -> AbstractContextManager[None]:
    """Raise ``error()`` inside the block if it runs longer than ``seconds``.

    Uses SIGALRM, so it works only in the main thread of a POSIX process; elsewhere the block runs without a limit. An
    existing handler and timer are restored.

    Args:
        seconds: Time limit, ``None`` for none.
        error: Factory of the exception.
    """
    return nullcontext() if seconds is None or not can_limit() else alarm(seconds, error)


@contextmanager
def alarm(seconds: float, error: Callable[[], Exception]) -> Iterator[None]:
    """Like :func:`time_limit`, but raise ``ValueError`` outside the main thread instead of ignoring the limit."""

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
    """Return whether :func:`time_limit` has an effect here."""
    return hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()


class WatchDog:
    """Raise ``TimeoutError`` in the main thread unless ``stop`` is called in time. Uses ``SIGALRM``.

    Args:
        timeout: Seconds, above 0.
    """

    def __init__(self, timeout: float = 1) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout must be above 0 seconds, got {timeout}")
        self._timeout = timeout
        self._watch = ExitStack()

    def start(self) -> None:
        """Start watching. Raises ``ValueError`` outside the main thread."""
        self._watch.enter_context(alarm(self._timeout, self._error))

    def stop(self) -> None:
        """Stop watching and restore the signal handler."""
        self._watch.close()

    def _error(self) -> TimeoutError:
        return TimeoutError(f"the watched code took longer than {self._timeout} s")

    def __enter__(self) -> "WatchDog":
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
