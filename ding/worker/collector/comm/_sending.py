"""Jobs that a collector submits and does not wait for."""

import threading
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]

# Beside the one that is being run.
_MAX_QUEUED = 1
_JOIN_S = 5.0


class Sending:
    """Runs jobs in a thread, one after the other in the order in which they are submitted, while the owner goes on.

    After a failure no job is run, and :meth:`submit` and :meth:`wait` raise what failed.

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

    def submit(self, job: Job) -> bool:
        """Queue a job; blocks while the queue is full. Returns whether it will be run: not after :meth:`close`.

        Raises:
            BaseException: what an earlier job raised.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._jobs) < _MAX_QUEUED or self._ended)
            if self._error is not None:
                raise self._error
            if self._closed:
                return False
            self._jobs.append(job)
            self._changed.notify_all()
            return True

    def wait(self) -> None:
        """Block until all jobs are done. Raises as :meth:`submit`."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._jobs or self._busy) or self._error is not None)
            if self._error is not None:
                raise self._error

    @property
    def _ended(self) -> bool:
        return self._closed or self._error is not None

    def close(self) -> None:
        """End the thread after the jobs in the queue, and wait a few seconds for that."""
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
