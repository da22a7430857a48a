"""The one thread in which a master calls what users gave it."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from ding.interaction.base.common import Counters

log = logging.getLogger(__name__)


class CallbackThread:
    """Calls functions one after the other. What a function raises is logged and counted; the thread goes on."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._queue: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="callbacks", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, function: Callable[[], Any] | None) -> None:
        """Call ``function`` in its turn; None is nothing to call."""
        if function is not None:
            self._queue.put(function)

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function of a user here and now."""
        try:
            function(*args)
        except Exception:
            self._counters.add("callback_errors")
            log.exception("a callback failed")

    def is_current(self) -> bool:
        """Whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def close(self, timeout_s: float) -> None:
        """Call what is waiting, then end; waits up to ``timeout_s``."""
        self._queue.put(None)
        if self._thread.is_alive() and not self.is_current():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (function := self._queue.get()) is not None:
            self.call(function)
