"""The two phases of middleware, and the bookkeeping of open second phases."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

from ding.utils.messages import add_note

Phases = Generator[Any, Any, Any]
Middleware = Callable[[Any], Any]

_NO_LOCK = contextlib.nullcontext()


@dataclass(order=True)
class OpenPhase:
    """Middleware between its two phases; ordered by the requests of the forward phases."""

    order: tuple[int, int]
    phases: Phases = field(compare=False)
    fn: Middleware = field(compare=False)
    lock: Any = field(compare=False)


class _OfThread(threading.local):
    """Position of the middleware that a thread runs; nested calls keep this position."""

    place = 0


class PhaseStack:
    """Runs forward phases and stores the middleware whose backward phase is pending.

    Concurrency: any thread may call the methods.
    """

    def __init__(self) -> None:
        self._open: list[OpenPhase] = []
        self._counter = itertools.count()
        self._of_thread = _OfThread()
        self._lock = threading.Lock()

    def set_place(self, place: int) -> None:
        """Set the position in the order for everything that this thread runs from now on."""
        self._of_thread.place = place

    def push(self, opened: OpenPhase | None) -> OpenPhase | None:
        """Store a middleware with a pending second phase; return it."""
        if opened is not None:
            with self._lock:
                self._open.append(opened)
        return opened

    def take(self, phases: Phases | None = None) -> OpenPhase | None:
        """Remove and return a middleware: the one with this generator, or the last in order."""
        with self._lock:
            if phases is None:
                found = max(self._open, default=None)
            else:
                found = next((one for one in self._open if one.phases is phases), None)
            if found is not None:
                self._open.remove(found)
            return found

    def run_first(self, fn: Middleware, ctx: Any, lock: Any = None) -> OpenPhase | None:
        """Run the forward phase of a middleware; return ``None`` if it has no second phase."""
        with lock or _NO_LOCK:
            try:
                phases = fn(ctx)
                if not isinstance(phases, GeneratorType):
                    return None
                next(phases)
            except StopIteration:
                return None
            except Exception as error:
                _note(error, fn)
                raise
        return OpenPhase((self._of_thread.place, next(self._counter)), phases, fn, lock)

    @staticmethod
    def run_second(opened: OpenPhase) -> None:
        """Run the backward phase of a result of :meth:`run_first`; code after a second ``yield`` never runs."""
        with opened.lock or _NO_LOCK:
            try:
                next(opened.phases, None)
            except Exception as error:
                _note(error, opened.fn)
                raise
            finally:
                opened.phases.close()


def name_of(fn: Middleware) -> str:
    """Return the name of a middleware: that of its function or its class."""
    return getattr(fn, "__name__", type(fn).__name__)


def _note(error: Exception, fn: Middleware) -> None:
    """Add the name of the middleware to the traceback; the innermost one in nested calls."""
    if "__notes__" not in vars(error):
        add_note(error, f"in the middleware {name_of(fn)!r}")
