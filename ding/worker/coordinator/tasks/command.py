"""Commander of a run, and other persistent state besides tasks and data."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ding.worker.coordinator.base_parallel_commander import BaseCommander
from ding.worker.coordinator.tasks.journal import Journal, JournalState
from ding.worker.coordinator.tasks.records import TaskRecord


class Command:
    """Wraps a commander that is used by one thread at a time: the caller holds :attr:`lock`.

    Args:
        commander: Decides which tasks to create.
        journal: Stores the state.
        collectors: Number of collectors that the commander's task limit is based on.

    Attributes:
        policy_versions: Newest version of each policy.
        learner_step: Train iterations so far.
        over: Whether the run has converged or failed.
        collectors: Target number of collectors.
    """

    def __init__(self, commander: BaseCommander, journal: Journal, collectors: int = 1) -> None:
        self.commander = commander
        self.lock = threading.RLock()
        self.policy_versions: dict[str, int] = {}
        self.learner_step = 0
        self.over = False
        self.collectors = collectors
        self._journal = journal

    def scale(self, collectors: int) -> None:
        """Adapt the limit of concurrent tasks to a new number of collectors."""
        for _ in range(collectors - self.collectors):
            self.commander.increase_collector_task_space()
        for _ in range(self.collectors - collectors):
            self.commander.decrease_collector_task_space()
        self.collectors = collectors

    def save(self) -> None:
        """Save the state to the journal."""
        with self.lock:
            own = {"policy_versions": self.policy_versions, "learner_step": self.learner_step, "shutdown": self.over}
            commander = self.commander.state_dict()
            self._journal.save_values({"coordinator": own, "commander": commander, "collectors": self.collectors})

    def restore(self, state: JournalState, live: Sequence[TaskRecord]) -> None:
        """Restore the state of an earlier coordinator; ``live`` are its open tasks."""
        saved: Mapping[str, Any] = state.values.get("coordinator", {})
        self.policy_versions = dict(saved.get("policy_versions", {}))
        self.learner_step = int(saved.get("learner_step", 0))
        self.over = bool(saved.get("shutdown", False))
        kinds = [record.kind for record in live]
        with self.lock:
            self.commander.load_state_dict(
                state.values.get("commander", {}), kinds.count("collector"), kinds.count("learner")
            )
            self.scale(int(state.values.get("collectors", self.collectors)))

    def status(self) -> dict[str, Any]:
        """Return the summary for displays of the run."""
        own = {"collectors_wanted": self.collectors, **self.commander.status()}
        return {"policy_versions": dict(self.policy_versions), "train_iter": self.learner_step, **own}
