"""The commander of the serial mode."""

from collections.abc import Mapping
from typing import Any, Protocol

from ding.data.roles import Buffer, CommandMode
from ding.utils import Configurable


class Trains(Protocol):
    """A learner, as a commander reads it."""

    @property
    def learn_info(self) -> dict[str, Any]:
        """How far it is."""


class Collects(Protocol):
    """A collector, as a commander reads it."""

    @property
    def envstep(self) -> int:
        """Env steps so far."""


class BaseSerialCommander(Configurable):
    """Says how to collect, by what learner and collector have reached.

    Args:
        cfg: commander config (no keys).
        learner: its ``learn_info`` is read.
        collector: its ``envstep`` is read.
        evaluator: kept for subclasses; may be ``None``.
        replay_buffer: kept for subclasses; may be ``None``.
        policy: command mode of a policy; may also be set later.
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
        """Keyword arguments for the next collection, e.g. ``{'eps': 0.93}``.

        Raises:
            AssertionError: no policy was set.
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
