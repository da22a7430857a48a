"""TD3: DDPG with two critics, a slower actor and noise in the targets."""

from ding.policy.ddpg import DDPGPolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("td3")
class TD3Policy(DDPGPolicy):
    """Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477): :class:`DDPGPolicy` with other defaults.

    The target network moves at every update of the critics, as in DI-engine; in the paper only with the actor.
    """

    config = {
        "type": "td3",
        "model": {"twin_critic": True},
        "learn": {
            "actor_update_freq": 2,
            "noise": True,
            "noise_sigma": 0.2,
            "noise_range": {"min": -0.5, "max": 0.5},
        },
    }
