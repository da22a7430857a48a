"""Taxi with one-hot parts of its state."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY

_PARTS = (25, 5, 4)  # cells, places of the passenger, destinations


class _OneHotParts(gymnasium.ObservationWrapper[Any, Any, Any]):
    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (sum(_PARTS),), np.float32)

    def observation(self, observation: int) -> np.ndarray:
        parts = np.unravel_index(observation, _PARTS)
        return np.concatenate([np.eye(size, dtype=np.float32)[part] for size, part in zip(_PARTS, parts)])


@ENV_REGISTRY.register("taxi")
class TaxiEnv(ZooEnv):
    """Taxi: one-hot cell, passenger and destination, float32 ``(34,)``, and six actions.

    The reward is -1 per step, 20 for the correct drop-off, and -10 for an illegal pick-up or drop-off. ``Taxi-v3``
    yields the newest version of Gymnasium.
    """

    config: ClassVar[dict[str, Any]] = {"env_id": "Taxi-v3", "max_episode_steps": 200}

    @staticmethod
    def _env_kwargs(cfg: EasyDict) -> dict[str, Any]:
        return {"max_episode_steps": cfg.max_episode_steps}

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        return [_OneHotParts]
