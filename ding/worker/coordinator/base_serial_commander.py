"""Commander of the serial mode."""

from collections.abc import Mapping
from typing import Any, Protocol

from ding.data.roles import Buffer, CommandMode
from ding.utils import Configurable


class Trains(Protocol):
    """Learner interface of a commander."""

    @property
    def learn_info(self) -> dict[str, Any]:
        """Progress of the learner."""


class Collects(Protocol):
    """Collector interface of a commander."""

    @property
    def envstep(self) -> int:
        """Env steps so far."""


class BaseSerialCommander(Configurable):
    """Chooses the collection settings from the progress of learner and collector.

    Args:
        cfg: Commander config (no keys).
        learner: Provides ``learn_info``.
        collector: Provides ``envstep``.
        evaluator: Stored for subclasses; may be ``None``.
        replay_buffer: Stored for subclasses; may be ``None``.
        policy: Command mode of a policy; may also be set later.
    """

    def __init__(
        self,
        cfg: Mapping[str, Any],
        learner: Trains,
        collector: Collects,
        evaluator: object,
        replay_buffer: Buffer | None,
        policy: CommandMode | None = None,
    ) -> None:
        self._cfg = cfg
        self._learner = learner
        self._collector = collector
        self._evaluator = evaluator
        self._replay_buffer = replay_buffer
        self._policy = policy
        self._info: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        """Return the keyword arguments of the next collection, e.g. ``{'eps': 0.93}``.

        Raises:
            AssertionError: No policy was set.
        """
        if self._policy is None:
            raise AssertionError("the commander has no policy: pass one to the constructor or set `commander.policy`")
        self._info.update(self._learner.learn_info)
        self._info["envstep"] = self._collector.envstep
        return self._policy.get_setting_collect(self._info)

    @property
    def policy(self) -> CommandMode | None:
        """Command mode of the policy."""
        return self._policy

    @policy.setter
    def policy(self, policy: CommandMode) -> None:
        self._policy = policy
