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
    # One update per env step.
    policy_defaults = {
        "random_collect_size": 1000,
        "model": {
            "action_space": "regression",
            "twin_critic": True,
            "actor_head_hidden_size": 256,
            "critic_head_hidden_size": 256,
        },
        "learn": {"update_per_collect": 8, "batch_size": 256},
        "collect": {"n_sample": 8},
        "eval": {"evaluator": {"eval_freq": 1000}},
        "other": {"replay_buffer": {"replay_buffer_size": 100000}},
    }
