"""CliffWalking with one-hot cells."""

from typing import Any, ClassVar

from easydict import EasyDict

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("cliffwalking")
class CliffWalkingEnv(ZooEnv):
    """CliffWalking-v1: the cell as one-hot float32 ``(48,)``, four actions, and a reward of -1, or -100 for a fall."""

    config: ClassVar[dict[str, Any]] = {
        "env_id": "CliffWalking-v1",
        # Steps after which an episode is truncated; the env itself has no limit.
        "max_episode_steps": 300,
    }

    @staticmethod
    def _env_kwargs(cfg: EasyDict) -> dict[str, Any]:
        return {"max_episode_steps": cfg.max_episode_steps}

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        return [{"type": "flatten_obs"}]
