"""The agent of A2C."""

from ding.bonus.core.agent import Agent
from ding.config.example.A2C import supported_env_cfg


class A2CAgent(Agent):
    """A2C (see :class:`ding.policy.A2CPolicy`) on envs with discrete or continuous actions."""

    algorithm = "A2C"
    policy_type = "a2c"
    action_kinds = ("discrete", "continuous")
    names_action_space = True
    supported_env_list = tuple(supported_env_cfg)
    policy_defaults = {
        "learn": {"batch_size": 40},
        "collect": {"n_sample": 80, "discount_factor": 0.95},
        "eval": {"evaluator": {"eval_freq": 100}},
    }
