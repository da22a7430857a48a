"""Events of a task, between its middleware and between the processes of a run."""

import contextlib
import functools
import itertools
import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

from ding.framework.event_loop import EventLoop

Listener = Callable[..., Any]

_made = itertools.count()


class Router(Protocol):
    """Messenger interface that a task needs, see :class:`ding.framework.Parallel`."""

    @property
    def is_active(self) -> bool:
        """Whether this process is one of several."""

    def on(self, event: str, fn: Listener) -> None:
        """Call ``fn`` with the arguments of each message of this topic."""

    def off(self, event: str) -> None:
        """Remove the listeners of the topics that match."""

    def emit(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Send a message to the connected processes."""


class TaskEvents:
    """Listeners of this process, connected to the router topics ``task.<event>``.

    Each event has one router subscription, which is removed with the last listener.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._loop = EventLoop(f"task_{next(_made)}")
        self._loop.on_error = self.wake
        self._bridged: set[str] = set()
        self._lock = threading.Lock()
        self._changed = threading.Condition()

    def on(self, event: str, fn: Listener) -> None:
        """Add a listener."""
        self._loop.on(event, fn)
        self._bridge(event)

    def once(self, event: str, fn: Listener) -> None:
        """Add a listener that is called once."""

        def first_call(*args: Any, **kwargs: Any) -> None:
            self._drop_idle_bridges()
            fn(*args, **kwargs)

        first_call.once_of = fn  # type: ignore[attr-defined]
        self._loop.once(event, first_call)
        self._bridge(event)

    def off(self, event: str, fn: Listener | None = None) -> None:
        """Remove a listener, or all listeners, of the events that match."""
        self._loop.off(event, fn)
        self._drop_idle_bridges()

    def emit_here(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Call the listeners of this process."""
        self._loop.emit(event, *args, **kwargs)

    def emit_away(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Send the event to the other processes; has no effect in a single-process run."""
        if self._router.is_active:
            self._router.emit(topic_of(event), *args, **kwargs)

    def wait_for(
        self, event: str, timeout: float, given_up: Callable[[], bool]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Wait for the event and return its arguments.

        Args:
            timeout: Time-out in seconds.
            given_up: Returns whether to stop waiting; checked at each :meth:`wake`.

        Returns:
            ``(args, kwargs)``, or ``None`` if the wait was given up.

        Raises:
            TimeoutError: The event did not occur in time.
        """
        heard: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

        def hear(*args: Any, **kwargs: Any) -> None:
            heard.append((args, kwargs))
            self.wake()

        self.once(event, hear)
        try:
            in_time = self.wait_until(lambda: bool(heard) or given_up(), timeout)
        finally:
            self.off(event, hear)
        if heard:
            return heard[0]
        if in_time:
            return None
        raise TimeoutError(f"event {event!r} did not come within {timeout} s")

    def wait_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until the condition holds, checked at each :meth:`wake`; return whether it holds.

        Args:
            timeout: Time-out in seconds.

        Raises:
            Exception: The error of a listener.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._loop.has_failed or condition(), None if math.isinf(timeout) else timeout
            )
            self._loop.raise_pending()
            return condition()

    def wake(self) -> None:
        """Make all waiting threads check their conditions."""
        with self._changed:
            self._changed.notify_all()

    def raise_pending(self) -> None:
        """Raise the error of a listener, if one has failed."""
        self._loop.raise_pending()

    def stop(self) -> None:
        """Remove all listeners and bridges."""
        self._loop.stop()
        self._drop_idle_bridges()
        self.wake()

    def _bridge(self, event: str) -> None:
        with self._lock:
            if self._router.is_active and event not in self._bridged:
                self._bridged.add(event)
                self._router.on(topic_of(event), functools.partial(self._hear, event))

    def _hear(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Call the listeners of a remote event; the task raises their errors."""
        with contextlib.suppress(Exception):
            self._loop.emit(event, *args, **kwargs)

    def _drop_idle_bridges(self) -> None:
        with self._lock:
            for event in [event for event in self._bridged if not self._loop.listened(event)]:
                self._bridged.discard(event)
                self._router.off(topic_of(event))


def topic_of(event: str) -> str:
    """Return the router topic of a task event."""
    return f"task.{event}"
