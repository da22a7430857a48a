"""State of all tasks of a run. The ledger is the only record; each change is journaled in the same step.

::

            submit           send             started           finish
    (none) -------> QUEUED --------> SENT ------------> RUNNING -------> DONE
                     ^  |              |                   |
                     |  | queue        | fail, lease over  | fail, lease over
                     |  | timeout      v                   v
                     |  +-> EXPIRED   (again: QUEUED, or FAILED after too many in a row)
                     +-----------------+-------------------+

A task that was sent is held by one *holder* ``(worker, incarnation)`` under a *lease*: a deadline that each answer of
the holder extends. Events of other processes are counted and otherwise ignored, so late and duplicate results have no
effect. A holder with an expired lease is *fenced*: that incarnation never gets another task.

Consecutive failures are counted; ``progress`` resets the count. Thus a task that kills every worker at once is given
up, but one whose workers are occasionally killed from outside is not. A worker that fails at every task is
*quarantined*: its process gets no more tasks. A task therefore fails for good only after failures at different workers,
or if there is no other worker.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ding.worker.coordinator.errors import TaskStateError
from ding.worker.coordinator.tasks.journal import QUARANTINED, TASK_COUNTS, Journal, JournalState
from ding.worker.coordinator.tasks.records import Holder, TaskCounters, TaskPhase, TaskRecord


class TaskLedger:
    """All tasks of a run. Thread-safe. External events never raise.

    Args:
        journal: Stores every change.
        lease_s: Seconds by which an answer of a worker extends its lease.
        queue_s: ``{kind: seconds}`` that a task waits for a worker before it expires.
        max_failures: Number of consecutive failures after which a task is ``FAILED`` or a worker quarantined.
        clock: Monotonic clock, in seconds.

    Attributes:
        has_other: Returns whether a worker of a kind, other than the given ones, can be assigned a task; by default
            there is none.
    """

    def __init__(
        self,
        journal: Journal,
        lease_s: float = 10.0,
        queue_s: Mapping[str, float] | None = None,
        max_failures: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lease_s = lease_s
        #: Event counters.
        self.counters = TaskCounters()
        self._journal = journal
        self._queue_s = dict(queue_s or {})
        self._max_failures = max_failures
        self._clock = clock
        self._lock = threading.RLock()
        self._tasks: dict[str, TaskRecord] = {}
        self._by_holder: dict[Holder, TaskRecord] = {}
        self._fenced: set[Holder] = set()
        self.has_other: Callable[[str, Collection[str]], bool] = lambda kind, names: False
        # By worker and process: number of failures, and the message of the last one.
        self._failures: Counter[tuple[str, str]] = Counter()
        self._quarantined: dict[tuple[str, str], str] = {}
        # Incarnations that may have left untaken chunks.
        self._unswept: set[Holder] = set()

    # ------------------------------------------------------------------ queries

    def record(self, task_id: str) -> TaskRecord | None:
        """Return the record of an open task, else ``None``; do not modify it."""
        with self._lock:
            return self._tasks.get(task_id)

    def queued(self, kind: str) -> list[dict[str, Any]]:
        """Return the bodies of the queued tasks of a kind, oldest first."""
        with self._lock:
            tasks = self._tasks.values()
            return [one.body for one in tasks if one.phase is TaskPhase.QUEUED and one.kind == kind]

    def task_of(self, holder: Holder) -> TaskRecord | None:
        """Return the task held by a worker; do not modify it."""
        with self._lock:
            return self._by_holder.get(holder)

    def lease_left(self, task_id: str, holder: Holder) -> float:
        """Return the seconds until the lease ends; 0 if the worker does not hold the task."""
        with self._lock:
            record = self._tasks.get(task_id)
            if record is None or record.holder != holder:
                return 0.0
            return max(0.0, record.lease_deadline - self._clock())

    def phases(self) -> dict[str, int]:
        """Return the number of tasks per phase."""
        with self._lock:
            return dict(Counter(record.phase.value for record in self._tasks.values()))

    # ------------------------------------------------------------------ events

    def submit(self, kind: str, body: Mapping[str, Any]) -> None:
        """Queue a task; ``body['task_id']`` is its id.

        Raises:
            TaskStateError: The task was submitted before.
        """
        with self._lock:
            task_id = body["task_id"]
            if task_id in self._tasks:
                raise TaskStateError(f"task {task_id!r} was submitted before")
            record = self._tasks[task_id] = TaskRecord(task_id, kind, dict(body), self._queue_deadline(kind))
            self.counters.submitted += 1
            self._journal.save_task(record)

    def send(self, task_id: str, holder: Holder) -> None:
        """Assign a queued task to a worker that is neither fenced nor busy.

        Raises:
            TaskStateError: The task is not queued, or the worker may not have it.
        """
        with self._lock:
            record = self._tasks.get(task_id)
            if record is None or record.phase is not TaskPhase.QUEUED:
                raise TaskStateError(f"task {task_id!r} is {record.phase.value if record else 'unknown'}, not queued")
            if holder in self._fenced:
                raise TaskStateError(f"{holder} is fenced and gets no task")
            if holder in self._by_holder:
                raise TaskStateError(f"{holder} holds task {self._by_holder[holder].task_id!r} already")
            record.phase, record.holder, record.lease_deadline = TaskPhase.SENT, holder, self._clock() + self.lease_s
            record.attempts += 1
            self._by_holder[holder] = record
            # The holder may store chunks from now on, and may end normally or be lost.
            self._unswept.add(holder)
            self._journal.update_tasks([record])

    def started(self, task_id: str, holder: Holder) -> bool:
        """Record that the worker started the task; return False if it no longer holds it."""
        with self._lock:
            record = self._held(task_id, holder)
            if record is None or record.phase is not TaskPhase.SENT:
                return False
            record.phase, record.lease_deadline = TaskPhase.RUNNING, self._clock() + self.lease_s
            self._journal.update_tasks([record])
            return True

    def renew(self, task_id: str, holder: Holder, extra_s: float = 0.0) -> bool:
        """Extend the lease of a worker that answered to at least ``lease_s + extra_s`` from now."""
        with self._lock:
            record = self._held(task_id, holder)
            if record is None:
                return False
            record.lease_deadline = max(record.lease_deadline, self._clock() + self.lease_s + extra_s)
            record.inherited = False
            return True

    def progress(self, task_id: str, holder: Holder, train_iter: int | None = None) -> bool:
        """Record useful work of a worker and reset the failure count.

        Args:
            train_iter: Train iteration of a learner. A learner that failed by itself makes progress only beyond the
                iteration it had reached; otherwise it might repeat the same iterations and fail forever.
        """
        with self._lock:
            record = self._held(task_id, holder)
            if record is not None and train_iter is not None:
                before, record.reached = record.reached, max(record.reached, train_iter)
                if record.reported and train_iter <= before:
                    return True
            self._failures.pop((holder.worker, holder.process), None)
            if record is not None and record.failures:
                record.failures, record.reported = 0, False
                record.failed_on.clear()
                self._journal.update_tasks([record])
            return record is not None

    def finish(self, task_id: str, holder: Holder) -> bool:
        """Remove a task that the worker finished. Returns True exactly once per task."""
        with self._lock:
            record = self._held(task_id, holder)
            if record is None:
                return False
            if record.phase is not TaskPhase.RUNNING:
                self.counters.stale_events += 1
                return False
            self._leave(record)
            self._failures.pop((holder.worker, holder.process), None)
            record.phase = TaskPhase.DONE
            self.counters.done += 1
            self._forget(task_id)
            return True

    def fail(self, task_id: str, holder: Holder, error: str, at_fault: bool = True) -> TaskPhase | None:
        """Record a failure: ``QUEUED`` again, ``FAILED`` for good, or ``None`` if the worker does not hold the task.

        Args:
            at_fault: Whether the failure also counts against the worker.
        """
        with self._lock:
            record = self._held(task_id, holder)
            if record is None:
                return None
            if at_fault and not record.inherited:
                self.blame(holder, error)
            self._again(record, error)
            record.reported = True
            self._journal.update_tasks([record])
            return record.phase

    def blame(self, holder: Holder, error: str) -> None:
        """Count a failure of a worker's process, and quarantine it after too many in a row."""
        with self._lock:
            process = holder.worker, holder.process
            self._failures[process] += 1
            if self._failures[process] >= self._max_failures:
                self._quarantined[process] = error
                self._journal.save_values({QUARANTINED: [[*one, why] for one, why in self._quarantined.items()]})

    def quarantine_of(self, holder: Holder) -> str | None:
        """Return the reason of a worker's quarantine; ``None``: it is not quarantined."""
        with self._lock:
            return self._quarantined.get((holder.worker, holder.process))

    def fence(self, holder: Holder, error: str) -> None:
        """Fence an incarnation of a worker; the task that it holds fails."""
        with self._lock:
            self._fence({holder: error}, [])

    def expire(self) -> list[TaskRecord]:
        """Expire tasks that waited too long (``EXPIRED``), and fence holders whose leases ran out.

        Returns:
            The changed tasks.
        """
        with self._lock:
            now, silent, late = self._clock(), {}, []
            for record in self._tasks.values():
                if record.phase is TaskPhase.QUEUED and record.queue_deadline <= now:
                    record.phase = TaskPhase.EXPIRED
                    late.append(record)
                elif record.holder is not None and record.lease_deadline <= now:
                    silent[record.holder] = f"the lease of {record.holder.worker} ran out"
            self.counters.expired += len(late)
            self.counters.leases_expired += len(silent)
            return self._fence(silent, late) if silent or late else []

    def drop(self, task_id: str) -> None:
        """Remove a task in a final phase, so that memory stays bounded.

        Raises:
            TaskStateError: The task is not in a final phase.
        """
        with self._lock:
            record = self._tasks.get(task_id)
            if record is not None and not record.phase.final:
                raise TaskStateError(f"task {task_id!r} is {record.phase.value} and cannot be dropped")
            self._forget(task_id)

    def _queue_deadline(self, kind: str) -> float:
        return self._clock() + self._queue_s.get(kind, float("inf"))

    def _held(self, task_id: str, holder: Holder) -> TaskRecord | None:
        record = self._tasks.get(task_id)
        if record is not None and record.holder == holder:
            return record
        self.counters.stale_events += 1
        return None

    def _leave(self, record: TaskRecord) -> None:
        if record.holder is not None:
            del self._by_holder[record.holder]
        record.holder = None

    def _again(self, record: TaskRecord, error: str) -> None:
        holder = record.holder
        self._leave(record)
        record.failures += not record.inherited
        if holder is not None and not record.inherited:
            record.failed_on.add(holder.worker)
        record.inherited = False
        record.error, record.reported = error, False
        often, mine = record.failures >= self._max_failures, set() if holder is None else {holder.worker}
        quarantined = holder is not None and (holder.worker, holder.process) in self._quarantined
        widely = len(record.failed_on) > 1
        if (often and widely) or ((often or quarantined) and not self.has_other(record.kind, mine)):
            record.phase = TaskPhase.FAILED
            self.counters.failed += 1
        else:
            record.phase, record.queue_deadline = TaskPhase.QUEUED, self._queue_deadline(record.kind)
            self.counters.requeued += 1

    def _fence(self, errors: Mapping[Holder, str], changed: list[TaskRecord]) -> list[TaskRecord]:
        """Fence incarnations and journal them with ``changed``; return all changed tasks."""
        for holder, error in errors.items():
            record = self._by_holder.get(holder)
            if record is not None:
                self._again(record, error)
                changed.append(record)
            self._failures.pop((holder.worker, holder.process), None)
        self._fenced |= errors.keys()
        self._unswept |= errors.keys()
        self._journal.update_tasks(changed, errors)
        return changed

    def _forget(self, task_id: str) -> None:
        self._tasks.pop(task_id, None)
        self._journal.forget_task(task_id)

    # ------------------------------------------------------------------ incarnations of workers

    def is_fenced(self, holder: Holder) -> bool:
        """Return whether an incarnation of a worker is fenced."""
        with self._lock:
            return holder in self._fenced

    def lives_of(self, worker: str) -> list[Holder]:
        """Return the incarnations of a worker that hold a task; several until a former one is known to be dead."""
        with self._lock:
            return [holder for holder in self._by_holder if holder.worker == worker]

    def unswept(self, present: Callable[[Holder], bool]) -> list[Holder]:
        """Return incarnations that had a task, unless their process is ``present`` or works on a task.

        Their untaken chunks can be deleted.
        """
        with self._lock:
            at_work = {holder.process for holder in self._by_holder}
            return [life for life in self._unswept if life.process not in at_work and not present(life)]

    def swept(self, holders: Collection[Holder]) -> None:
        """Record that the chunks of these incarnations were deleted."""
        if holders:
            with self._lock:
                self._unswept.difference_update(holders)
                self._journal.forget_fenced(holders)

    # ------------------------------------------------------------------ taken chunks

    def heard(self, task_id: str, holder: Holder, seq: int) -> None:
        """Record that all chunks up to ``seq`` were taken and journaled."""
        with self._lock:
            record = self._tasks.get(task_id)
            if record is not None:
                record.seen[holder] = seq

    def seen(self, task_id: str, holder: Holder) -> int:
        """Return the last sequence number that was taken."""
        with self._lock:
            record = self._tasks.get(task_id)
            return 0 if record is None else record.seen.get(holder, 0)

    # ------------------------------------------------------------------ restart

    def restore(self, state: JournalState) -> None:
        """Restore the tasks of an earlier coordinator; workers have one lease to reconnect."""
        with self._lock:
            for record in state.tasks:
                if record.phase.final:
                    continue
                record.queue_deadline = self._queue_deadline(record.kind)
                record.lease_deadline = self._clock() + self.lease_s
                self._tasks[record.task_id] = record
                if record.holder is not None:
                    record.inherited = True
                    self._by_holder[record.holder] = record
            self._fenced |= state.fenced
            self._quarantined.update({(name, process): why for name, process, why in state.values.get(QUARANTINED, [])})
            self._unswept |= state.fenced | state.unswept
            self.counters = TaskCounters(**{**vars(self.counters), **state.values.get(TASK_COUNTS, {})})

    def save_counters(self) -> None:
        """Save the counters to the journal."""
        with self._lock:
            counts = dict(vars(self.counters))
        self._journal.save_values({TASK_COUNTS: counts})
