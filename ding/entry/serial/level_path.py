"""On-policy training on levels of a procedurally generated env, selected by a ``LevelSampler``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from ding.config import ConfigValueError
from ding.data.level_replay import LevelSampler, generate_seeds
from ding.data.roles import Samples, StateDict
from ding.entry.serial.loop import OnPolicyPath, collected
from ding.entry.serial.parts import SerialParts
from ding.policy.common_utils import default_preprocess_learn
from ding.worker import SampleSerialCollector


class LevelReplayPath(OnPolicyPath):
    """Plays one level per env and pass, repeatedly from its start; after training, the collected samples are scored,
    and the scores determine the next levels.

    Args:
        parts: Workers of the run. ``cfg.level_replay`` has the settings of the sampler, and ``num_levels`` (default
            500).
        interruptible: Context manager for sections that a signal may interrupt at any point.

    Raises:
        ConfigValueError: The collector does not collect samples, or the settings are invalid.
    """

    def __init__(self, parts: SerialParts, interruptible: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(parts, interruptible)
        collector: object = parts.collector
        if not isinstance(collector, SampleSerialCollector):
            raise ConfigValueError("policy.collect.collector.type must be 'sample' for level replay")
        self._collector, self._env_num = collector, parts.collector_env.env_num
        settings, model = dict(parts.cfg.get("level_replay", {})), parts.cfg.policy.model
        levels = generate_seeds(settings.pop("num_levels", 500))
        try:
            self._sampler = LevelSampler(levels, model.obs_shape, model.action_shape, self._env_num, settings)
        except ValueError as error:
            raise ConfigValueError(str(error)) from error
        self._levels = [self._sampler.sample("sequential") for _ in range(self._env_num)]
        parts.saved["levels"] = self

    def _collected(self) -> Samples:
        self._collector.restart_envs(self._levels, dynamic_seed=False)
        return collected(self._parts, level_seeds=self._levels)

    def batches(self) -> Iterator[Samples]:
        yield self._samples

    def trained(self) -> None:
        ignore_done = self._parts.cfg.policy.learn.get("ignore_done", False)
        data = default_preprocess_learn(self._samples, ignore_done=ignore_done)
        self._sampler.update_with_rollouts(data, self._env_num)
        self._levels = [self._sampler.sample() for _ in range(self._env_num)]

    def state_dict(self) -> StateDict:
        """Return the state of the sampler, and the levels of the next pass."""
        return {"sampler": self._sampler.state_dict(), "levels": list(self._levels)}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`."""
        self._sampler.load_state_dict(state_dict["sampler"])
        self._levels = list(state_dict["levels"])
