"""The commander of a run, and what else a coordinator must not forget beside tasks and data."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ding.worker.coordinator.base_parallel_commander import BaseCommander
from ding.worker.coordinator.tasks.journal import Journal, JournalState
from ding.worker.coordinator.tasks.records import TaskRecord


class Command:
    """A commander, which is called by one thread at a time: the caller holds :attr:`lock`.

    Args:
        commander: decides which tasks there are.
        journal: where its state is written down.

    Attributes:
        policy_versions: newest version of each policy.
        learner_step: train iterations so far.
        over: the run has converged, or failed.
    """

    def __init__(self, commander: BaseCommander, journal: Journal) -> None:
        self.commander = commander
        self.lock = threading.RLock()
        self.policy_versions: dict[str, int] = {}
        self.learner_step = 0
        self.over = False
        self._journal = journal

    def save(self) -> None:
        """Write down the state."""
        with self.lock:
            own = {"policy_versions": self.policy_versions, "learner_step": self.learner_step, "shutdown": self.over}
            self._journal.save_values({"coordinator": own, "commander": self.commander.state_dict()})

    def restore(self, state: JournalState, live: Sequence[TaskRecord]) -> None:
        """Go on where an earlier coordinator was; ``live`` are its tasks that are not over."""
        saved: Mapping[str, Any] = state.values.get("coordinator", {})
        self.policy_versions = dict(saved.get("policy_versions", {}))
        self.learner_step = int(saved.get("learner_step", 0))
        self.over = bool(saved.get("shutdown", False))
        kinds = [record.kind for record in live]
        with self.lock:
            self.commander.load_state_dict(
                state.values.get("commander", {}), kinds.count("collector"), kinds.count("learner")
            )

    def status(self) -> dict[str, Any]:
        """What a view of the run shows of it."""
        own = self.commander.status()
        return {"policy_versions": dict(self.policy_versions), "train_iter": self.learner_step, **own}
