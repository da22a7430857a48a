"""The two phases of a middleware, and those that wait for their second one."""

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
    """A middleware between its two phases. The order is that in which the forward phases were asked for."""

    order: tuple[int, int]
    phases: Phases = field(compare=False)
    fn: Middleware = field(compare=False)
    lock: Any = field(compare=False)


class _OfThread(threading.local):
    """The place of the middleware that a thread runs, so that what that one calls stays in its place."""

    place = 0


class PhaseStack:
    """Runs forward phases and keeps the middleware whose backward phase is still to come.

    Concurrency: all methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._open: list[OpenPhase] = []
        self._counter = itertools.count()
        self._of_thread = _OfThread()
        self._lock = threading.Lock()

    def set_place(self, place: int) -> None:
        """Let what this thread runs from here on have this place in the order."""
        self._of_thread.place = place

    def push(self, opened: OpenPhase | None) -> OpenPhase | None:
        """Keep a middleware for its second phase, if it has one; returns it."""
        if opened is not None:
            with self._lock:
                self._open.append(opened)
        return opened

    def take(self, phases: Phases | None = None) -> OpenPhase | None:
        """Remove and return a middleware: the one of this generator, else the last one in order."""
        with self._lock:
            if phases is None:
                found = max(self._open, default=None)
            else:
                found = next((one for one in self._open if one.phases is phases), None)
            if found is not None:
                self._open.remove(found)
            return found

    def run_first(self, fn: Middleware, ctx: Any, lock: Any = None) -> OpenPhase | None:
        """Run the forward phase of a middleware; returns ``None`` if it has no second one."""
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
        """Run the backward phase of what :meth:`run_first` returned; what follows a second ``yield`` never runs."""
        with opened.lock or _NO_LOCK:
            try:
                next(opened.phases, None)
            except Exception as error:
                _note(error, opened.fn)
                raise
            finally:
                opened.phases.close()


def name_of(fn: Middleware) -> str:
    """Return the name of a middleware: of its function, else of its class."""
    return getattr(fn, "__name__", type(fn).__name__)


def _note(error: Exception, fn: Middleware) -> None:
    """Let the traceback name the middleware; the innermost one, when they call one another."""
    if "__notes__" not in vars(error):
        add_note(error, f"in the middleware {name_of(fn)!r}")
