"""Named events and their listeners, called on threads of their own."""

import fnmatch
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

logger = logging.getLogger(__name__)

Listener = Callable[..., Any]

NUM_THREADS = 2


class EventLoop:
    """Calls the listeners of an event when it is emitted.

    Concurrency: ``emit`` returns at once. The emits of one event are served one after the other, in their order, and
    the listeners of an emit in the order in which they were added; different events share two threads. All methods may
    be called from any thread, also by listeners.

    An exception in a listener is logged at once, and ends the work of the loop: no other listener is called any more,
    and each later :meth:`emit` raises it, until :meth:`stop`.

    Args:
        name: the name under which :meth:`get_event_loop` finds the loop.

    Attributes:
        stops_at_error: False for a loop that serves others, too: an exception is logged only.
        on_error: called when a listener has failed.
    """

    loops: ClassVar[dict[str, "EventLoop"]] = {}

    def __init__(self, name: str = "default") -> None:
        self._name = name
        self.stops_at_error = True
        self.on_error: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._listeners: dict[str, list[Listener]] = {}
        self._emits: dict[str, deque[tuple[tuple[Any, ...], dict[str, Any]]]] = {}
        self._pool = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix=f"events-{name}")
        self._exception: Exception | None = None
        self._active = True

    @classmethod
    def get_event_loop(cls, name: str = "default") -> "EventLoop":
        """Return the active loop of this name; a new one if there is none."""
        loop = cls.loops.get(name)
        if loop is None or not loop._active:
            loop = cls.loops[name] = cls(name)
        return loop

    def on(self, event: str, fn: Listener) -> None:
        """Call ``fn`` with the arguments of each emit of the event."""
        with self._lock:
            self._listeners.setdefault(event, []).append(fn)

    def once(self, event: str, fn: Listener) -> None:
        """Call ``fn`` at the next emit of the event only."""
        taken = threading.Lock()

        def first_call(*args: Any, **kwargs: Any) -> None:
            if taken.acquire(blocking=False):
                self.off(event, first_call)
                fn(*args, **kwargs)

        first_call.once_of = fn  # type: ignore[attr-defined]
        self.on(event, first_call)

    def off(self, event: str, fn: Listener | None = None) -> None:
        """Remove a listener, or all listeners, of the events that match.

        Args:
            event: a name or a pattern (``task.*``).
            fn: the listener; ``None`` for all. One that is not there is no error.
        """
        with self._lock:
            for name in fnmatch.filter(list(self._listeners), event):
                left = [] if fn is None else [one for one in self._listeners[name] if not _is_listener(one, fn)]
                if left:
                    self._listeners[name] = left
                else:
                    del self._listeners[name]

    def emit(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Have the listeners of the event called; does nothing after :meth:`stop`.

        Raises:
            Exception: what a listener of this loop, of any event, has raised.
        """
        self.raise_pending()
        with self._lock:
            if not self._active or event not in self._listeners:
                return
            if event in self._emits:  # a thread serves this event
                self._emits[event].append((args, kwargs))
            else:
                self._emits[event] = deque([(args, kwargs)])
                self._pool.submit(self._serve, event)

    def _serve(self, event: str) -> None:
        """Serve the emits of an event until there are no more."""
        while True:
            with self._lock:
                emits = self._emits[event]
                if not emits or self._exception is not None:
                    del self._emits[event]
                    self._idle.notify_all()
                    return
                args, kwargs = emits.popleft()
                listeners = list(self._listeners.get(event, ()))
            for fn in listeners:
                try:
                    fn(*args, **kwargs)
                except Exception as error:
                    logger.exception("a listener of event %r failed", event)
                    if self.stops_at_error:
                        self._exception = error
                        if self.on_error is not None:
                            self.on_error()
                        break

    def raise_pending(self) -> None:
        """Raise the exception of a listener, if one has failed."""
        if self._exception is not None:
            raise self._exception

    @property
    def has_failed(self) -> bool:
        """Whether a listener has raised."""
        return self._exception is not None

    def listened(self, event: str) -> bool:
        """Return whether the event has listeners."""
        return event in self._listeners

    def drain(self, timeout_s: float) -> bool:
        """Wait until all emits have been served; returns whether they have."""
        with self._lock:
            return self._idle.wait_for(lambda: not self._emits, timeout_s)

    def stop(self) -> None:
        """Remove all listeners and wait for those that are running. A second call does nothing."""
        with self._lock:
            if not self._active:
                return
            self._active = False
            self._listeners = {}
        self._exception = None
        # A listener may be what stops the loop: it cannot wait for its own end.
        inside = threading.current_thread().name.startswith(f"events-{self._name}")
        self._pool.shutdown(wait=not inside, cancel_futures=True)
        if EventLoop.loops.get(self._name) is self:
            del EventLoop.loops[self._name]

    def __del__(self) -> None:
        if self.__dict__.get("_active"):
            self._pool.shutdown(wait=False, cancel_futures=True)


def _is_listener(one: Listener, fn: Listener) -> bool:
    # Bound methods are made anew at each access, so that identity would not find them.
    return one == fn or getattr(one, "once_of", None) == fn
