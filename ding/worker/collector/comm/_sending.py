"""Background jobs of a collector."""

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

Job = Callable[[], None]

# Maximum number of queued jobs, besides the running one.
_MAX_QUEUED = 1
_JOIN_S = 5.0


class _Queued(NamedTuple):
    job: Job
    is_note: bool


class Sending:
    """Runs jobs in a background thread, in the order of submission. Owned by a single thread.

    After a failure no further job runs, and all methods but :meth:`close` raise that error.

    Args:
        name: Name of the thread.
        failed: Called in that thread with the error of a job.
    """

    def __init__(self, name: str, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._changed = threading.Condition()
        self._queue: deque[_Queued] = deque()
        self._busy = self._closed = False
        self._error: BaseException | None = None
        # A daemon thread, so that a store that hangs does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> bool:
        """Queue a job; block while the queue is full. Return whether it will run, which is False after :meth:`close`.

        Raises:
            BaseException: The error of an earlier job.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._num_jobs() < _MAX_QUEUED or self._ended)
            self._raise_failure()
            if self._closed:
                return False
            self._queue.append(_Queued(job, is_note=False))
            self._changed.notify_all()
            return True

    def note(self, job: Job) -> None:
        """Run a short job after all earlier ones; a later note replaces a pending one. Never blocks.

        With no pending job the note runs at once in the calling thread. Has no effect after :meth:`close`.

        Raises:
            BaseException: The error of an earlier job.
        """
        with self._changed:
            self._raise_failure()
            if self._closed:
                return
            if self._queue or self._busy:
                if self._queue and self._queue[-1].is_note:
                    self._queue.pop()
                self._queue.append(_Queued(job, is_note=True))
                self._changed.notify_all()
                return
        job()

    def wait(self) -> None:
        """Block until all jobs are done; raises like :meth:`submit`."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._queue or self._busy) or self._error is not None)
            self._raise_failure()

    def _num_jobs(self) -> int:
        return sum(not queued.is_note for queued in self._queue)

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise self._error

    @property
    def _ended(self) -> bool:
        return self._closed or self._error is not None

    def close(self) -> None:
        """End the thread after the queued jobs, and wait a few seconds for it."""
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
            self._changed.wait_for(lambda: self._queue or self._closed)
            if not self._queue:
                return None
            self._busy = True
            self._changed.notify_all()
            return self._queue.popleft().job
