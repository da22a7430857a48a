"""The agent of TD3."""

from ding.bonus.core.agent import Agent
from ding.config.example.TD3 import supported_env_cfg


class TD3Agent(Agent):
    """TD3 (see :class:`ding.policy.TD3Policy`) on envs with continuous actions."""

    algorithm = "TD3"
    policy_type = "td3"
    action_kinds = ("continuous",)
    encodes_vectors = False
    supported_env_list = tuple(supported_env_cfg)
    policy_defaults = {
        "random_collect_size": 800,
        "model": {"action_space": "regression", "twin_critic": True},
        "learn": {"update_per_collect": 2, "batch_size": 128, "noise_sigma": 0.1},
        "collect": {"n_sample": 48},
        "eval": {"evaluator": {"eval_freq": 100}},
    }
