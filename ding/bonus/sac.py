"""The agent of SAC."""

from ding.bonus.core.agent import Agent
from ding.config.example.SAC import supported_env_cfg


class SACAgent(Agent):
    """SAC (see :class:`ding.policy.SACPolicy`) on envs with continuous actions."""

    algorithm = "SAC"
    policy_type = "sac"
    action_kinds = ("continuous",)
    encodes_vectors = False
    supported_env_list = tuple(supported_env_cfg)
    # An update per env step.
    policy_defaults = {
        "random_collect_size": 1000,
        "model": {"actor_head_hidden_size": 256, "critic_head_hidden_size": 256},
        "learn": {"update_per_collect": 8, "batch_size": 256},
        "collect": {"n_sample": 8},
        "eval": {"evaluator": {"eval_freq": 1000}},
        "other": {"replay_buffer": {"replay_buffer_size": 100000}},
    }
