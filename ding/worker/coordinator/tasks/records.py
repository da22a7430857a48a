"""What is known of a task: who has it, where it is, and how it went."""

import enum
from dataclasses import dataclass, field
from typing import Any


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
    """One task. Times are seconds of the monotonic clock of its ledger.

    Attributes:
        body: what is sent to a worker.
        queue_deadline: until then it must be sent, while queued.
        lease_deadline: until then its holder must be heard of, while sent or running.
        failures: failures in a row, without progress in between.
        failed_on: the workers at which these were.
        attempts: how often it was sent.
        error: what the last failure said.
        reached: the train iteration of a learner up to which progress was reported.
        reported: its worker itself reported the last failure, and was not killed or silent.
        seen: for each holder, the number up to which its chunks were taken.
        inherited: an earlier coordinator sent it, and its holder was not heard of since. If it never is, it died with
            that coordinator, which is no failure of the task.
    """

    task_id: str
    kind: str
    body: dict[str, Any] = field(default_factory=dict)
    queue_deadline: float = 0.0
    phase: TaskPhase = TaskPhase.QUEUED
    holder: Holder | None = None
    lease_deadline: float = 0.0
    failures: int = 0
    failed_on: set[str] = field(default_factory=set)
    attempts: int = 0
    error: str = ""
    reached: int = -1
    reported: bool = False
    seen: dict[Holder, int] = field(default_factory=dict)
    inherited: bool = False


@dataclass
class TaskCounters:
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
