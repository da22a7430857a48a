"""Background jobs of a task: a thread pool whose results are awaited together."""

import concurrent.futures
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Jobs:
    """Runs functions in a thread pool; :meth:`sync` waits for all of them and raises the first error.

    Args:
        num_workers: Number of threads.
        on_failure: Called at once, in the job's thread, when a job fails.
    """

    def __init__(self, num_workers: int, on_failure: Callable[[], None]) -> None:
        self._on_failure = on_failure
        self._pool = ThreadPoolExecutor(num_workers, thread_name_prefix="task")
        self._open: list[Future[Any]] = []
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], *args: Any) -> "Future[Any]":
        """Start a job that :meth:`sync` waits for."""
        future = self._pool.submit(fn, *args)
        future.add_done_callback(self._check)
        with self._lock:
            self._open.append(future)
        return future

    def _check(self, job: "Future[Any]") -> None:
        if not job.cancelled() and job.exception() is not None:
            self._on_failure()

    def run_all(self, calls: list[Callable[[], Any]]) -> list[Any]:
        """Run the calls concurrently and return their results in order."""
        futures = [self._pool.submit(call) for call in calls]
        concurrent.futures.wait(futures)
        return [future.result() for future in futures]

    def sync(self) -> None:
        """Wait for all open jobs.

        If one fails, pending jobs are cancelled and running ones awaited. The first error, in the order of
        :meth:`submit`, is raised.
        """
        while True:
            with self._lock:
                jobs, self._open = self._open, []
            if not jobs:
                return
            _, others = concurrent.futures.wait(jobs, return_when=concurrent.futures.FIRST_EXCEPTION)
            if others:
                for job in others:
                    job.cancel()
                concurrent.futures.wait(others)
            for job in jobs:
                if not job.cancelled():
                    job.result()

    def stop(self) -> None:
        """End the threads after their running jobs; pending jobs are dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)
