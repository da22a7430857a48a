"""Execution of a slave's tasks: threads, a queue, and the record of seen ids.

Each id is accepted once. If it is sent again while the task runs, the running task is kept and reports to the newest
connection; afterwards, its outcome is reported again. Restarted masters and duplicated messages are therefore harmless.
"""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ding.interaction.slave._link import Link

_OUTCOMES_KEPT = 32
_IDS_KEPT = 4096


@dataclass
class Job:
    """A pending task. ``link`` is the connection that receives its outcome."""

    id: str
    data: Any
    link: Link
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Outcome:
    """Outcome of a task: completed or failed, with its result and a sentence."""

    completed: bool
    result: Any = None
    message: str = ""


class Busy(Exception):
    """All slots are taken."""


class TaskSlots:
    """Run up to ``limit`` tasks at once.

    ``process(job)`` returns the outcome and ``report(job)`` sends it; both run in a thread of a slot and must not
    raise. A task no longer counts as running while it is reported: the master may send the next one as soon as it has
    the result. Each task keeps its own id and connection, so the next one cannot take them.
    """

    def __init__(self, limit: int, process: Callable[[Job], Outcome], report: Callable[[Job], None]) -> None:
        if limit < 1:
            raise ValueError(f"max_tasks must be at least 1, got {limit}")
        self._limit = limit
        self._process = process
        self._report = report
        self._lock = threading.Lock()
        self._running: dict[str, Job] = {}
        self._done: OrderedDict[str, Outcome | None] = OrderedDict()
        self._recent: deque[str] = deque()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False

    @property
    def running(self) -> int:
        """Number of waiting or running tasks."""
        with self._lock:
            return len(self._running)

    def has_free(self) -> bool:
        """Return whether a slot is free for another task."""
        with self._lock:
            return not self._closed and len(self._running) < self._limit

    def seen(self, task_id: str) -> bool:
        """Return whether the id was seen before."""
        with self._lock:
            return task_id in self._running or task_id in self._done

    def take(self, task_id: str, data: object, link: Link) -> bool:
        """Accept a task; return False for a known id, whose outcome is then reported (again) to ``link``.

        Raises:
            Busy: All slots are taken.
        """
        with self._lock:
            if task_id in self._running:
                self._running[task_id].link = link
                return False
            if task_id in self._done:
                outcome = self._done[task_id]
                if outcome is not None:
                    self._put(Job(task_id, None, link, outcome))
                return False
            if self._closed or len(self._running) >= self._limit:
                raise Busy
            job = Job(task_id, data, link)
            self._running[task_id] = job
            self._put(job)
            return True

    def close(self, timeout_s: float) -> int:
        """Accept no more tasks, wait up to ``timeout_s`` for each running one; return the number still running."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)
        return sum(thread.is_alive() for thread in threads)

    def _put(self, job: Job) -> None:
        if len(self._threads) < min(self._limit, len(self._running) or 1):
            thread = threading.Thread(target=self._work, name=f"task-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put(job)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            if job.outcome is None:
                job.outcome = self._process(job)
                self._finish(job, job.outcome)
            self._report(job)

    def _finish(self, job: Job, outcome: Outcome) -> None:
        with self._lock:
            del self._running[job.id]
            self._done[job.id] = outcome
            self._recent.append(job.id)
            if len(self._recent) > _OUTCOMES_KEPT:
                self._done[self._recent.popleft()] = None
            if len(self._done) > _IDS_KEPT:
                self._done.popitem(last=False)
