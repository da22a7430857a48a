"""Which task is where: a pure state machine, without threads, clocks or I/O.

::

            submit           send             started           finish
    (none) -------> QUEUED --------> SENT ------------> RUNNING -------> DONE
                     ^  |              |                   |
                     |  | queue        | fail, lease over  | fail, lease over
                     |  | timeout      v                   v
                     |  +-> EXPIRED   (again: QUEUED, or FAILED after too many in a row)
                     +-----------------+-------------------+

A task that was sent is held by one *holder* ``(worker, incarnation)`` under a *lease*: a deadline that every answer of
the holder moves. Events of anyone else change nothing and are counted: so a result that comes late or twice has no
effect. A holder whose lease ran out is *fenced*: that incarnation never gets another task.

Failures are counted in a row; ``progress`` ends the row. So a task that kills every worker at once is given up, and one
whose workers are killed from outside now and then is not.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from ding.worker.coordinator.errors import TaskStateError


class TaskPhase(str, enum.Enum):
    """Where a task is."""

    QUEUED = "queued"
    SENT = "sent"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        """Nothing follows."""
        return self in (TaskPhase.DONE, TaskPhase.FAILED, TaskPhase.EXPIRED)


@dataclass(frozen=True)
class Holder:
    """A process that may work on a task: the name of a worker and the id of its current life."""

    worker: str
    incarnation: str

    @property
    def process(self) -> str:
        """The incarnation that the process reported: one that comes back after it was fenced gets a new life."""
        return self.incarnation.partition("+")[0]


@dataclass
class TaskRecord:
    """One task. Times are seconds of the caller's monotonic clock.

    Attributes:
        queue_deadline: until then it must be sent, while queued.
        lease_deadline: until then its holder must be heard of, while sent or running.
        failures: failures in a row, without progress in between.
        attempts: how often it was sent.
        error: what the last failure said.
        inherited: an earlier coordinator sent it, and its holder was not heard of since. If it never is, it died with
            that coordinator, which is no failure of the task.
    """

    task_id: str
    kind: str
    queue_deadline: float
    phase: TaskPhase = TaskPhase.QUEUED
    holder: Holder | None = None
    lease_deadline: float = 0.0
    failures: int = 0
    attempts: int = 0
    error: str = ""
    inherited: bool = False


@dataclass
class MachineCounters:
    """What happened so far.

    Attributes:
        stale_events: events of a process that does not hold the task (late, doubled, or a zombie).
    """

    submitted: int = 0
    done: int = 0
    failed: int = 0
    expired: int = 0
    requeued: int = 0
    leases_expired: int = 0
    stale_events: int = 0


@dataclass
class TaskMachine:
    """All tasks of a run. Not thread-safe: the caller holds a lock.

    Args:
        max_failures: a task that fails so often in a row is ``FAILED``.

    Raises:
        TaskStateError: of ``submit`` and ``send`` only, when the caller asks for what makes no sense. Events that come
            from outside never raise.
    """

    max_failures: int = 3
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    fenced: set[Holder] = field(default_factory=set)
    counters: MachineCounters = field(default_factory=MachineCounters)
    _by_holder: dict[Holder, str] = field(default_factory=dict)

    def submit(self, task_id: str, kind: str, queue_deadline: float) -> TaskRecord:
        """A new task, queued."""
        if task_id in self.tasks:
            raise TaskStateError(f"task {task_id!r} was submitted before")
        record = self.tasks[task_id] = TaskRecord(task_id, kind, queue_deadline)
        self.counters.submitted += 1
        return record

    def queued(self, kind: str) -> list[TaskRecord]:
        """Queued tasks of a kind, oldest first."""
        return [record for record in self.tasks.values() if record.phase is TaskPhase.QUEUED and record.kind == kind]

    def active(self) -> list[TaskRecord]:
        """Tasks that are sent or running."""
        return [record for record in self.tasks.values() if record.holder is not None]

    def task_of(self, holder: Holder) -> TaskRecord | None:
        """The task that a process holds."""
        task_id = self._by_holder.get(holder)
        return None if task_id is None else self.tasks[task_id]

    # ------------------------------------------------------------------ on its way

    def send(self, task_id: str, holder: Holder, lease_deadline: float) -> TaskRecord:
        """A queued task goes to a process that is neither fenced nor busy."""
        record = self.tasks.get(task_id)
        if record is None or record.phase is not TaskPhase.QUEUED:
            raise TaskStateError(f"task {task_id!r} is {record.phase.value if record else 'unknown'}, not queued")
        if holder in self.fenced:
            raise TaskStateError(f"{holder} is fenced and gets no task")
        if holder in self._by_holder:
            raise TaskStateError(f"{holder} holds task {self._by_holder[holder]!r} already")
        record.phase, record.holder, record.lease_deadline = TaskPhase.SENT, holder, lease_deadline
        record.attempts += 1
        self._by_holder[holder] = task_id
        return record

    def started(self, task_id: str, holder: Holder, lease_deadline: float) -> bool:
        """The holder said that it works on the task. False, and nothing changes, for anyone else."""
        record = self._held(task_id, holder)
        if record is None or record.phase is not TaskPhase.SENT:
            return self._stale() if record is None else False
        record.phase, record.lease_deadline = TaskPhase.RUNNING, lease_deadline
        return True

    def renew(self, task_id: str, holder: Holder, lease_deadline: float) -> bool:
        """The holder was heard of: its lease ends not before ``lease_deadline``."""
        record = self._held(task_id, holder)
        if record is None:
            return self._stale()
        record.lease_deadline = max(record.lease_deadline, lease_deadline)
        record.inherited = False
        return True

    def progress(self, task_id: str, holder: Holder) -> bool:
        """The holder did something useful: earlier failures no longer count."""
        record = self._held(task_id, holder)
        if record is None:
            return self._stale()
        record.failures = 0
        return True

    # ------------------------------------------------------------------ ends

    def finish(self, task_id: str, holder: Holder) -> bool:
        """The holder finished the task. True exactly once per task."""
        record = self._held(task_id, holder)
        if record is None or record.phase is not TaskPhase.RUNNING:
            return self._stale()
        self._leave(record)
        record.phase = TaskPhase.DONE
        self.counters.done += 1
        return True

    def fail(self, task_id: str, holder: Holder, error: str, queue_deadline: float) -> TaskPhase | None:
        """The holder failed or is lost: the task is queued again or given up.

        Returns:
            The new phase (``QUEUED`` or ``FAILED``); ``None``, and nothing changes, when someone else holds the task.
        """
        record = self._held(task_id, holder)
        if record is None:
            self._stale()
            return None
        return self._again(record, error, queue_deadline)

    def fence(self, holder: Holder, error: str, queue_deadline: float) -> TaskRecord | None:
        """This process gets no task any more; the one it holds fails. Returns that task."""
        self.fenced.add(holder)
        record = self.task_of(holder)
        if record is not None:
            self._again(record, error, queue_deadline)
        return record

    def give_up(self, task_id: str, error: str) -> bool:
        """End a task that is not final as failed, with or without a holder."""
        record = self.tasks.get(task_id)
        if record is None or record.phase.final:
            return False
        self._leave(record)
        record.phase, record.error = TaskPhase.FAILED, error
        self.counters.failed += 1
        return True

    def expire(self, now: float, queue_deadline: float) -> list[TaskRecord]:
        """Let time pass: tasks that waited too long are ``EXPIRED``, leases that ran out fence their holders.

        Args:
            now: current time.
            queue_deadline: deadline of the tasks that are queued again.

        Returns:
            Tasks that changed.
        """
        changed = []
        for record in list(self.tasks.values()):
            if record.phase is TaskPhase.QUEUED and record.queue_deadline <= now:
                record.phase = TaskPhase.EXPIRED
                self.counters.expired += 1
                changed.append(record)
            elif record.holder is not None and record.lease_deadline <= now:
                self.counters.leases_expired += 1
                self.fence(record.holder, f"the lease of {record.holder.worker} ran out", queue_deadline)
                changed.append(record)
        return changed

    def forget(self, task_ids: Iterable[str]) -> None:
        """Drop final tasks, so that a long run does not grow.

        Raises:
            TaskStateError: one of them is not final.
        """
        for task_id in task_ids:
            record = self.tasks.get(task_id)
            if record is None:
                continue
            if not record.phase.final:
                raise TaskStateError(f"task {task_id!r} is {record.phase.value} and cannot be forgotten")
            del self.tasks[task_id]

    def restore(self, record: TaskRecord) -> None:
        """Take over a record of a journal."""
        self.tasks[record.task_id] = record
        record.inherited = record.holder is not None
        if record.holder is not None:
            self._by_holder[record.holder] = record.task_id

    # ------------------------------------------------------------------ helpers

    def _held(self, task_id: str, holder: Holder) -> TaskRecord | None:
        record = self.tasks.get(task_id)
        return record if record is not None and record.holder == holder else None

    def _stale(self) -> bool:
        self.counters.stale_events += 1
        return False

    def _leave(self, record: TaskRecord) -> None:
        if record.holder is not None:
            del self._by_holder[record.holder]
        record.holder = None

    def _again(self, record: TaskRecord, error: str, queue_deadline: float) -> TaskPhase:
        self._leave(record)
        record.failures += not record.inherited
        record.inherited = False
        record.error = error
        if record.failures >= self.max_failures:
            record.phase = TaskPhase.FAILED
            self.counters.failed += 1
        else:
            record.phase, record.queue_deadline = TaskPhase.QUEUED, queue_deadline
            self.counters.requeued += 1
        return record.phase
