"""Policy updates of a parallel collector, applied only between two steps."""

import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

_WAIT_S = 1.0


class PolicyFeed:
    """Fetches new policy versions in a thread; the collector takes the newest one between two steps.

    Args:
        fetch: ``fetch(path, newer_than=..., timeout_s=...)`` waits for a version and returns a state dict with the key
            ``iter``, or ``None``. A function of ``path`` alone is polled every ``interval_s`` instead.
        path: Name of the policy.
        interval_s: Poll interval in seconds.
    """

    def __init__(self, fetch: Callable[..., Any], path: str, interval_s: float) -> None:
        self._fetch = fetch
        self._path = path
        self._interval_s = interval_s
        self._waits = "newer_than" in inspect.signature(fetch).parameters
        self._closed = threading.Event()
        self._arrived = threading.Condition()
        self._newest: tuple[int, dict[str, Any]] | None = None
        self._iteration = -1
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def first(self) -> "tuple[int, dict[str, Any]] | None":
        """Wait for the first version; return ``None`` if the feed is closed meanwhile."""
        while not self._closed.is_set():
            found = self._fetch_once()
            if found is not None:
                return found
            if not self._waits:
                self._closed.wait(self._interval_s)
        return None

    def start(self) -> None:
        """Start fetching newer versions."""
        self._thread = threading.Thread(target=self._run, name=f"policy-{self._path}", daemon=True)
        self._thread.start()

    def take(self, wait_s: float = 0.0) -> "tuple[int, dict[str, Any]] | None":
        """Return ``(iteration, state dict)`` of the newest version not taken yet; wait up to ``wait_s`` for one.

        Raises:
            Exception: The error that the fetch raised.
        """
        if self._newest is None and self._error is None and not wait_s:
            return None
        with self._arrived:
            self._arrived.wait_for(lambda: self._newest or self._error or self._closed.is_set(), wait_s)
            newest, self._newest = self._newest, None
        if self._error is not None:
            raise self._error
        return newest

    def close(self) -> None:
        """Stop fetching and wake blocked callers."""
        self._closed.set()
        with self._arrived:
            self._arrived.notify_all()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                logger.warning("the thread that waits for policy %s did not end in %.1f s", self._path, timeout_s)

    def _run(self) -> None:
        while not self._closed.is_set():
            if not self._waits and self._closed.wait(self._interval_s):
                return
            try:
                found = self._fetch_once()
            except Exception as error:  # noqa: BLE001 - raised in the collector's own thread by take()
                with self._arrived:
                    self._error = error
                    self._arrived.notify_all()
                return
            if found is not None:
                with self._arrived:
                    self._newest = found
                    self._arrived.notify_all()

    def _fetch_once(self) -> "tuple[int, dict[str, Any]] | None":
        if self._waits:
            info = self._fetch(self._path, newer_than=self._iteration, timeout_s=_WAIT_S)
        else:
            info = self._fetch(self._path)
        if info is None:
            return None
        state = dict(info)
        iteration = int(state.pop("iter", 0))
        if iteration == self._iteration:
            return None
        self._iteration = iteration
        return iteration, state
