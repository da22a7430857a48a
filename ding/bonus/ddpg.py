"""The agent of DDPG."""

from ding.bonus.core.agent import Agent
from ding.config.example.DDPG import supported_env_cfg


class DDPGAgent(Agent):
    """DDPG (see :class:`ding.policy.DDPGPolicy`) on envs with continuous actions."""

    algorithm = "DDPG"
    policy_type = "ddpg"
    action_kinds = ("continuous",)
    encodes_vectors = False
    supported_env_list = tuple(supported_env_cfg)
    policy_defaults = {
        "random_collect_size": 800,
        "model": {"action_space": "regression", "twin_critic": False},
        "learn": {"update_per_collect": 2, "batch_size": 128},
        "collect": {"n_sample": 48},
        "eval": {"evaluator": {"eval_freq": 100}},
    }
