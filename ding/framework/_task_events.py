"""The events of a task: between its middleware, and over the router between the processes of a run."""

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
    """What a task needs of the process's messenger, see :class:`ding.framework.Parallel`."""

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
    """Listeners of this process, bridged to the topics ``task.<event>`` of the router.

    There is one bridge per event, however many listeners it has, and it goes with the last of them.
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
        """Have the listeners of this process called."""
        self._loop.emit(event, *args, **kwargs)

    def emit_away(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Send the event to the other processes; does nothing in a run of one."""
        if self._router.is_active:
            self._router.emit(topic_of(event), *args, **kwargs)

    def wait_for(
        self, event: str, timeout: float, given_up: Callable[[], bool]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Wait for the event and return its arguments.

        Args:
            timeout: in seconds.
            given_up: whether waiting has become useless; it is looked at again at each :meth:`wake`.

        Returns:
            ``(args, kwargs)``, or ``None`` when waiting has become useless.

        Raises:
            TimeoutError: the event did not come in time.
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
        """Wait until the condition holds, which is looked at again at each :meth:`wake`; returns whether it does.

        Args:
            timeout: in seconds.

        Raises:
            Exception: what a listener has raised.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._loop.has_failed or condition(), None if math.isinf(timeout) else timeout
            )
            self._loop.raise_pending()
            return condition()

    def wake(self) -> None:
        """Have all waiting threads look again."""
        with self._changed:
            self._changed.notify_all()

    def raise_pending(self) -> None:
        """Raise what a listener raised, if one has failed."""
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
        """Call the listeners of an event of another process; what one of them has raised, the task raises itself."""
        with contextlib.suppress(Exception):
            self._loop.emit(event, *args, **kwargs)

    def _drop_idle_bridges(self) -> None:
        with self._lock:
            for event in [event for event in self._bridged if not self._loop.listened(event)]:
                self._bridged.discard(event)
                self._router.off(topic_of(event))


def topic_of(event: str) -> str:
    """Return the topic of the router that carries an event of tasks."""
    return f"task.{event}"
