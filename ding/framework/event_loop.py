"""Named events and their listeners, called in separate threads."""

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

    Concurrency: ``emit`` returns immediately. Emits of the same event are processed sequentially in their order, with
    listeners in the order of registration; different events share two threads. Any thread, including a listener, may
    call the methods.

    An exception in a listener is logged at once and stops the loop: no other listener is called, and each later
    :meth:`emit` raises the exception, until :meth:`stop`.

    Args:
        name: Name by which :meth:`get_event_loop` finds the loop.

    Attributes:
        stops_at_error: False for a shared loop: an exception is only logged.
        on_error: Called when a listener has failed.
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
        """Return the active loop with this name, or create one."""
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
            event: Name or pattern (``task.*``).
            fn: Listener to remove; ``None``: all. A missing listener is no error.
        """
        with self._lock:
            for name in fnmatch.filter(list(self._listeners), event):
                left = [] if fn is None else [one for one in self._listeners[name] if not _is_listener(one, fn)]
                if left:
                    self._listeners[name] = left
                else:
                    del self._listeners[name]

    def emit(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Emit an event; has no effect after :meth:`stop`.

        Raises:
            Exception: The error of a listener of this loop, of any event.
        """
        self.raise_pending()
        with self._lock:
            if not self._active or event not in self._listeners:
                return
            if event in self._emits:  # a thread is processing this event
                self._emits[event].append((args, kwargs))
            else:
                self._emits[event] = deque([(args, kwargs)])
                self._pool.submit(self._serve, event)

    def _serve(self, event: str) -> None:
        """Process the emits of an event until there are no more."""
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
        """Raise the error of a listener, if one has failed."""
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
        """Wait until all emits are processed; return False on time-out."""
        with self._lock:
            return self._idle.wait_for(lambda: not self._emits, timeout_s)

    def stop(self) -> None:
        """Remove all listeners and wait for running ones. Repeated calls have no effect."""
        with self._lock:
            if not self._active:
                return
            self._active = False
            self._listeners = {}
        self._exception = None
        # A listener that stops the loop cannot wait for its own end.
        inside = threading.current_thread().name.startswith(f"events-{self._name}")
        self._pool.shutdown(wait=not inside, cancel_futures=True)
        if EventLoop.loops.get(self._name) is self:
            del EventLoop.loops[self._name]

    def __del__(self) -> None:
        if self.__dict__.get("_active"):
            self._pool.shutdown(wait=False, cancel_futures=True)


def _is_listener(one: Listener, fn: Listener) -> bool:
    # Bound methods are new objects at each access, so identity would not match.
    return one == fn or getattr(one, "once_of", None) == fn
