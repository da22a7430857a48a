"""FrozenLake with one-hot cells."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


class _RolledOneHot(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Moves the first cell to the last position of the vector, which networks trained with DI-engine expect."""

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.roll(observation, -1)


@ENV_REGISTRY.register("frozen_lake")
class FrozenLakeEnv(ZooEnv):
    """FrozenLake-v1: the cell as one-hot float32 ``(16,)``, four actions, and a reward of 1 at the goal.

    Cell ``i`` is position ``i - 1`` of the vector, cell 0 the last position.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "FrozenLake-v1",
        # Rows of a custom map, e.g. ["SF", "HG"]; otherwise the map with this name.
        "desc": None,
        "map_name": "4x4",
        "is_slippery": True,
    }

    @staticmethod
    def _env_kwargs(cfg: EasyDict) -> dict[str, Any]:
        return {"desc": cfg.desc, "map_name": cfg.map_name, "is_slippery": cfg.is_slippery}

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        return [{"type": "flatten_obs"}, _RolledOneHot]
