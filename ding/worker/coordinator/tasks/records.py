"""Data of a task: holder, phase and failures."""

import enum
from dataclasses import dataclass, field
from typing import Any


class TaskPhase(str, enum.Enum):
    """Phase of a task."""

    QUEUED = "queued"
    SENT = "sent"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        """Whether the phase is final."""
        return self in (TaskPhase.DONE, TaskPhase.FAILED, TaskPhase.EXPIRED)


@dataclass(frozen=True)
class Holder:
    """Process that may work on a task: the name of a worker and the id of its current incarnation."""

    worker: str
    incarnation: str

    @property
    def process(self) -> str:
        """Incarnation as reported by the process; a process that returns after being fenced gets a new incarnation."""
        return self.incarnation.partition("+")[0]


@dataclass
class TaskRecord:
    """One task. Times are in seconds of the ledger's monotonic clock.

    Attributes:
        body: Message to a worker.
        queue_deadline: Time by which a queued task must be sent.
        lease_deadline: Time by which the holder must answer, while sent or running.
        failures: Number of consecutive failures without progress.
        failed_on: Workers of these failures.
        attempts: Number of times the task was sent.
        error: Message of the last failure.
        reached: Train iteration up to which a learner's progress was reported.
        reported: Whether the worker itself reported the last failure, rather than being killed or silent.
        seen: Number up to which chunks were taken, per holder.
        inherited: Whether an earlier coordinator sent the task and its holder has not answered since. A holder that
            never answers died with that coordinator, which does not count as a failure of the task.
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
    """Event counters.

    Attributes:
        stale_events: Events of processes that do not hold the task (late, duplicate, or from a zombie).
    """

    submitted: int = 0
    done: int = 0
    failed: int = 0
    expired: int = 0
    requeued: int = 0
    leases_expired: int = 0
    stale_events: int = 0
