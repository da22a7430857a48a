"""MountainCar."""

from typing import Any, ClassVar

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("mountain_car")
class MountainCarEnv(ZooEnv):
    """MountainCar-v0: float32 ``(2,)``, three actions, a reward of -1 per step, and a time limit of 200 steps."""

    config: ClassVar[dict[str, Any]] = {"env_id": "MountainCar-v0"}
