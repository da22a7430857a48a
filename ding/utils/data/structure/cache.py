"""Items that are released together, once there are enough of them or once they are old enough."""

import logging
import time
from collections import deque
from collections.abc import Iterator
from threading import Condition, Event, Thread
from typing import Any


class Cache:
    """A buffer between threads that push and threads that iterate.

    Pushed items wait until there are ``maxlen`` of them, and then all become ready; with :meth:`run`, an item also
    becomes ready when it has waited for ``timeout`` seconds. Iterators take what is ready, in the order of the pushes.

    Concurrency: every method may be called from any thread. A push that completes a group blocks while ``maxlen`` ready
    items have not been taken. The thread of :meth:`run` is a daemon and ends with :meth:`close`.

    Arguments:
        maxlen: items that become ready together.
        timeout: seconds after which an item becomes ready.
        monitor_interval: Seconds between checks of the ages.
        _debug: Log items that become ready.
    """

    def __init__(self, maxlen: int, timeout: float, monitor_interval: float = 1.0, _debug: bool = False) -> None:
        if maxlen < 1:
            raise ValueError(f"maxlen must be at least 1, got {maxlen!r}")
        self.maxlen = maxlen
        self.timeout = timeout
        self.monitor_interval = monitor_interval
        self.debug = _debug
        self._waiting: deque[tuple[float, Any]] = deque()
        self._ready: deque[Any] = deque()
        self._changed = Condition()
        self._closed = Event()
        self._monitor = Thread(target=self._watch_ages, name="cache-monitor", daemon=True)

    @property
    def remain_data_count(self) -> int:
        """Number of items that are not ready."""
        return len(self._waiting)

    def push_data(self, data: Any) -> None:
        """Add an item. After :meth:`close` it is only counted, because no iterator takes it."""
        with self._changed:
            self._waiting.append((time.monotonic(), data))
            # Another push may have made them ready in the meantime.
            self._changed.wait_for(
                lambda: not self._enough_wait() or len(self._ready) < self.maxlen or self._closed.is_set()
            )
            if self._enough_wait():
                self._make_ready(len(self._waiting))

    def get_cached_data_iter(self) -> Iterator[Any]:
        """Return an iterator over ready items. It blocks while there are none and ends after :meth:`close`."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._closed.is_set())
                if not self._ready:
                    return
                data = self._ready.popleft()
                self._changed.notify_all()
            yield data

    def run(self) -> None:
        """Start the thread that checks the ages. Call it once."""
        self._monitor.start()

    def close(self) -> None:
        """End the iterators, after they have taken the ready items, and the thread. May be called repeatedly."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        if self._monitor.is_alive():
            self._monitor.join()

    def dprint(self, s: str) -> None:
        """Log ``s`` if ``_debug``."""
        if self.debug:
            logging.getLogger(__name__).info("cache: %s", s)

    def _watch_ages(self) -> None:
        while not self._closed.wait(self.monitor_interval):
            with self._changed:
                if len(self._ready) < self.maxlen:
                    latest = time.monotonic() - self.timeout
                    self._make_ready(sum(pushed <= latest for pushed, _ in self._waiting))

    def _enough_wait(self) -> bool:
        return len(self._waiting) >= self.maxlen

    def _make_ready(self, count: int) -> None:
        """Move the oldest items; called under the lock."""
        if count == 0 or self._closed.is_set():
            return
        self._ready.extend(self._waiting.popleft()[1] for _ in range(count))
        self._changed.notify_all()
        self.dprint(f"{count} items became ready")
