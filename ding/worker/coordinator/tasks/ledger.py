"""The tasks of a run, shared by the threads of a coordinator: task machine, bodies, sequence numbers, journal."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ding.worker.coordinator.tasks.journal import Journal, JournalState
from ding.worker.coordinator.tasks.machine import Holder, MachineCounters, TaskMachine, TaskPhase, TaskRecord


class TaskLedger:
    """Thread-safe face of a :class:`TaskMachine`; what changes goes to the journal in the same step.

    Args:
        journal: where everything is written down.
        lease_s: seconds for which an answer of a worker renews its lease.
        queue_s: ``{kind: seconds}`` that a task waits for a worker before it expires.
        max_failures: failures in a row after which a task is given up.
        clock: seconds, never going backwards.
    """

    def __init__(
        self,
        journal: Journal,
        lease_s: float = 10.0,
        queue_s: Mapping[str, float] | None = None,
        max_failures: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal = journal
        self._machine = TaskMachine(max_failures=max_failures)
        self._bodies: dict[str, dict[str, Any]] = {}
        self._seen: dict[tuple[str, Holder], int] = {}
        self._queue_s = dict(queue_s or {})
        self._clock = clock
        self._lock = threading.RLock()
        self.lease_s = lease_s
        self._unswept: set[Holder] = set()

    def _queue_deadline(self, kind: str) -> float:
        return self._clock() + self._queue_s.get(kind, float("inf"))

    # ------------------------------------------------------------------ tasks

    def submit(self, kind: str, body: Mapping[str, Any]) -> None:
        """Queue a task; ``body['task_id']`` is its id."""
        with self._lock:
            record = self._machine.submit(body["task_id"], kind, self._queue_deadline(kind))
            self._bodies[record.task_id] = dict(body)
            self._journal.save_task(record, body)

    def knows(self, task_id: str) -> bool:
        """Whether the task was submitted and not forgotten."""
        with self._lock:
            return task_id in self._machine.tasks

    def body(self, task_id: str) -> dict[str, Any]:
        """What is sent to a worker."""
        with self._lock:
            return self._bodies[task_id]

    def queued(self, kind: str) -> list[dict[str, Any]]:
        """Bodies of the queued tasks of a kind, oldest first."""
        with self._lock:
            return [self._bodies[record.task_id] for record in self._machine.queued(kind)]

    def active(self, kind: str | None = None) -> list[str]:
        """Ids of the tasks that a worker holds."""
        with self._lock:
            return [record.task_id for record in self._machine.active() if kind in (None, record.kind)]

    def record(self, task_id: str) -> TaskRecord | None:
        """The current record; do not change it."""
        with self._lock:
            return self._machine.tasks.get(task_id)

    def task_of(self, holder: Holder) -> tuple[TaskPhase, dict[str, Any]] | None:
        """Phase and body of the task that a worker holds."""
        with self._lock:
            record = self._machine.task_of(holder)
            return None if record is None else (record.phase, self._bodies[record.task_id])

    # ------------------------------------------------------------------ events

    def send(self, task_id: str, holder: Holder) -> None:
        """A worker is about to get a queued task."""
        with self._lock:
            self._journal.update_tasks([self._machine.send(task_id, holder, self._clock() + self.lease_s)])

    def started(self, task_id: str, holder: Holder) -> bool:
        """The worker began; False when it does not hold the task any more."""
        with self._lock:
            moved = self._machine.started(task_id, holder, self._clock() + self.lease_s)
            if moved:
                self._journal.update_tasks([self._machine.tasks[task_id]])
            return moved

    def renew(self, task_id: str, holder: Holder, extra_s: float = 0.0) -> bool:
        """The worker was heard of; its lease lasts ``lease_s + extra_s`` from now on."""
        with self._lock:
            return self._machine.renew(task_id, holder, self._clock() + self.lease_s + extra_s)

    def progress(self, task_id: str, holder: Holder) -> bool:
        """The worker did something useful."""
        with self._lock:
            record = self._machine.tasks.get(task_id)
            forgiven = record is not None and record.failures > 0
            moved = self._machine.progress(task_id, holder)
            if moved and forgiven and record is not None:
                self._journal.update_tasks([record])
            return moved

    def lease_left(self, task_id: str, holder: Holder) -> float:
        """Seconds until the lease ends; 0 when the worker does not hold the task."""
        with self._lock:
            record = self._machine.tasks.get(task_id)
            if record is None or record.holder != holder:
                return 0.0
            return max(0.0, record.lease_deadline - self._clock())

    def finish(self, task_id: str, holder: Holder) -> bool:
        """The worker finished the task. True exactly once per task."""
        with self._lock:
            finished = self._machine.finish(task_id, holder)
            if finished:
                self._forget(task_id)
            return finished

    def fail(self, task_id: str, holder: Holder, error: str) -> TaskPhase | None:
        """The task failed there: ``QUEUED`` again, ``FAILED`` for good, ``None`` when the worker does not hold it."""
        with self._lock:
            record = self._machine.tasks.get(task_id)
            deadline = self._queue_deadline(record.kind) if record is not None else 0.0
            phase = self._machine.fail(task_id, holder, error, deadline)
            if phase is not None:
                self._journal.update_tasks([self._machine.tasks[task_id]])
            return phase

    def fence(self, holder: Holder, error: str) -> str | None:
        """This life of a worker is over. Returns the id of the task that it held."""
        with self._lock:
            held = self._machine.task_of(holder)
            record = self._machine.fence(holder, error, self._queue_deadline(held.kind if held else ""))
            self._fence_off({holder}, [] if record is None else [record])
            return None if record is None else record.task_id

    def is_fenced(self, holder: Holder) -> bool:
        """Whether this life of a worker is over."""
        with self._lock:
            return holder in self._machine.fenced

    def expire(self) -> list[TaskRecord]:
        """Let time pass; returns the tasks that changed."""
        with self._lock:
            now = self._clock()
            longest = max(self._queue_s.values(), default=float("inf"))
            holders = {record.holder for record in self._machine.active() if record.holder is not None}
            changed = self._machine.expire(now, now + longest)
            if changed:
                self._fence_off(holders & self._machine.fenced, changed)
            return changed

    def _fence_off(self, holders: set[Holder], records: list[TaskRecord]) -> None:
        """Lives of workers are over; what they leave behind must be swept, by this coordinator or the next."""
        self._unswept |= holders
        self._journal.update_tasks(records, holders)

    def drop(self, task_id: str) -> dict[str, Any] | None:
        """Forget a task that is final; returns its body."""
        with self._lock:
            body = self._bodies.get(task_id)
            self._forget(task_id)
            return body

    def _forget(self, task_id: str) -> None:
        self._machine.forget([task_id])
        self._bodies.pop(task_id, None)
        self._seen = {key: seq for key, seq in self._seen.items() if key[0] != task_id}
        self._journal.forget_task(task_id)

    def unswept(self, present: Callable[[Holder], bool]) -> list[Holder]:
        """Lives of workers that are over, unless their process is ``present`` or works on a task in a later life."""
        with self._lock:
            at_work = {record.holder.process for record in self._machine.active() if record.holder is not None}
            return [life for life in self._unswept if life.process not in at_work and not present(life)]

    def swept(self, holders: Collection[Holder]) -> None:
        """These lives of workers have left nothing behind."""
        if holders:
            with self._lock:
                self._unswept.difference_update(holders)
                self._journal.forget_fenced(holders)

    # ------------------------------------------------------------------ data

    def holds(self, task_id: str, holder: Holder) -> bool:
        """Whether a worker holds a task."""
        with self._lock:
            record = self._machine.tasks.get(task_id)
            return record is not None and record.holder == holder

    def heard(self, task_id: str, holder: Holder, seq: int) -> None:
        """Everything up to ``seq`` was taken, and is in the journal."""
        with self._lock:
            self._seen[task_id, holder] = seq

    def seen(self, task_id: str, holder: Holder) -> int:
        """The last sequence number that was taken."""
        with self._lock:
            return self._seen.get((task_id, holder), 0)

    # ------------------------------------------------------------------ restart and reports

    def restore(self, state: JournalState) -> None:
        """Go on with the tasks of an earlier coordinator; workers get one lease of time to come back."""
        with self._lock:
            for record, body in state.tasks:
                if record.phase.final:
                    continue
                record.queue_deadline = self._queue_deadline(record.kind)
                record.lease_deadline = self._clock() + self.lease_s
                self._machine.restore(record)
                self._bodies[record.task_id] = body
            self._seen = dict(state.seen)
            self._unswept = set(state.fenced)
            self._machine.fenced |= state.fenced

    @property
    def counters(self) -> MachineCounters:
        """What happened so far."""
        return self._machine.counters

    def phases(self) -> dict[str, int]:
        """Number of tasks by phase."""
        with self._lock:
            result: dict[str, int] = {}
            for record in self._machine.tasks.values():
                result[record.phase.value] = result.get(record.phase.value, 0) + 1
            return result
