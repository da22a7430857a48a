"""Jobs that a collector orders and does not wait for."""

import threading
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]

# Beside the one that is being done.
_MOST_WAITING = 1
_JOIN_S = 5.0


class Sending:
    """Does jobs in a thread, one after the other in the order in which they come, while their owner goes on.

    An owner that is far ahead waits. After a failure nothing more is done, and the owner hears of it with its next job.

    Args:
        name: of the thread.
        failed: called, in that thread, with what a job raised.
    """

    def __init__(self, name: str, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._busy = self._closed = False
        self._error: BaseException | None = None
        # A daemon: a store that does not answer keeps no process from its end.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def order(self, job: Job) -> None:
        """Have a job done; waits while there are enough.

        Raises:
            BaseException: what an earlier one raised.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._jobs) < _MOST_WAITING or self._error is not None)
            if self._error is not None:
                raise self._error
            self._jobs.append(job)
            self._changed.notify_all()

    def settle(self) -> None:
        """Wait until all is done. Raises as :meth:`order`."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._jobs or self._busy) or self._error is not None)
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """End the thread after what was ordered, and wait a few seconds for that."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - raised in the owner's thread
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                self._failed(error)
                return

    def _next(self) -> Job | None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return None
            self._busy = True
            self._changed.notify_all()
            return self._jobs.popleft()
