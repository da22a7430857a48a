"""LunarLander, with discrete or continuous engine control."""

from typing import Any, ClassVar

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("lunarlander")
class LunarLanderEnv(ZooEnv):
    """LunarLander (extra ``box2d``): float32 ``(8,)``, and four actions or float32 ``(2,)`` in [-1, 1].

    ``env_id`` is ``LunarLander-v3`` or ``LunarLanderContinuous-v3``; DI-engine's ``-v2`` maps to the same. The env
    itself clips actions to its bounds.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "LunarLander-v3",
        "act_scale": None,
        "action_clip": False,
        "obs_plus_prev_action_reward": False,
        "replay_path": None,
    }
