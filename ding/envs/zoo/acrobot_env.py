"""Acrobot."""

from typing import Any, ClassVar

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("acrobot")
class AcroBotEnv(ZooEnv):
    """Acrobot-v1: float32 ``(6,)``, three actions, a reward of -1 per step, and a time limit of 500 steps."""

    config: ClassVar[dict[str, Any]] = {"env_id": "Acrobot-v1"}
