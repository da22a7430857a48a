"""State of the workers: idle, busy or quarantined."""

import enum
import random
import threading
from collections.abc import Collection
from typing import Any

from ding.utils import did_you_mean

_KINDS = ("collector", "learner")


class WorkerState(str, enum.Enum):
    """State of a worker."""

    IDLE = "idle"
    BUSY = "busy"
    QUARANTINED = "quarantined"


class NaiveResourceManager:
    """Assigns idle workers at random. Thread-safe.

    A worker is idle after ``update``, busy after ``assign_*``, and unknown after ``delete``. A quarantined worker is
    known but is assigned no tasks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: dict[str, dict[str, tuple[WorkerState, dict[str, Any]]]] = {kind: {} for kind in _KINDS}

    def assign_collector(self, collector_task: dict[str, Any]) -> dict[str, Any] | None:
        """Mark an idle collector busy and return its ``{'collector_id', 'resource_info'}``; ``None``: none is idle."""
        return self.assign("collector")

    def assign_learner(self, learner_task: dict[str, Any]) -> dict[str, Any] | None:
        """Mark an idle learner busy and return its ``{'learner_id', 'resource_info'}``; ``None``: none is idle."""
        return self.assign("learner")

    def assign(self, name: str, avoid: Collection[str] = ()) -> dict[str, Any] | None:
        """Assign a worker of a kind; those in ``avoid`` only if no other one is idle."""
        with self._lock:
            workers = self._of(name)
            idle = [worker for worker, (state, _) in workers.items() if state is WorkerState.IDLE]
            if not idle:
                return None
            worker = random.choice([worker for worker in idle if worker not in avoid] or idle)
            info = workers[worker][1]
            workers[worker] = (WorkerState.BUSY, info)
            return {f"{name}_id": worker, "resource_info": info}

    def have_assigned(self, name: str, worker_id: str) -> bool:
        """Return whether the worker is known and busy."""
        return self.state(name, worker_id) is WorkerState.BUSY

    def state(self, name: str, worker_id: str) -> WorkerState | None:
        """Return the state of a worker; ``None``: unknown."""
        with self._lock:
            entry = self._of(name).get(worker_id)
            return None if entry is None else entry[0]

    def update(self, name: str, worker_id: str, resource_info: dict[str, Any], busy: bool = False) -> None:
        """Register a worker as idle, or as busy with an earlier task (``busy``)."""
        with self._lock:
            self._of(name)[worker_id] = (WorkerState.BUSY if busy else WorkerState.IDLE, resource_info)

    def quarantine(self, name: str, worker_id: str) -> None:
        """Assign no more tasks to a worker."""
        with self._lock:
            self._of(name)[worker_id] = (WorkerState.QUARANTINED, {})

    def delete(self, name: str, worker_id: str) -> bool:
        """Remove a worker; return whether it was known."""
        with self._lock:
            return self._of(name).pop(worker_id, None) is not None

    def count(self, name: str, state: WorkerState | None = None) -> int:
        """Return the number of workers of a kind, in one state or in any."""
        with self._lock:
            return sum(state in (None, one) for one, _ in self._of(name).values())

    def _of(self, name: str) -> dict[str, tuple[WorkerState, dict[str, Any]]]:
        if name not in self._workers:
            raise AssertionError(f"unknown kind of worker {name!r}.{did_you_mean(name, _KINDS)}")
        return self._workers[name]
