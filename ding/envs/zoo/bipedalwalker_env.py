"""BipedalWalker."""

from typing import Any, ClassVar

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("bipedalwalker")
class BipedalWalkerEnv(ZooEnv):
    """BipedalWalker-v3 (extra ``box2d``): float32 ``(24,)``, and float32 ``(4,)`` in [-1, 1].

    ``rew_clip`` raises rewards below -10 (a fall gives -100) to -10; ``eval_episode_return`` sums the unclipped
    rewards.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "BipedalWalker-v3",
        "act_scale": None,
        "rew_clip": False,
        "replay_path": None,
    }
