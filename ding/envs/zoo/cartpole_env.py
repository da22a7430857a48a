"""CartPole, whose episodes end after 200 steps."""

from typing import Any, ClassVar

from ding.envs.zoo._zoo_env import ZooEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("cartpole")
class CartPoleEnv(ZooEnv):
    """CartPole-v0: float32 ``(4,)``, two actions, a reward of 1 per step, and a time limit of 200 steps.

    With ``obs_plus_prev_action_reward`` the observation is a dict, see :class:`ObsPlusPrevActRewWrapper`.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "CartPole-v0",
        "obs_plus_prev_action_reward": False,
    }
