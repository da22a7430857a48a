"""The agent of REINFORCE."""

from ding.bonus.core.agent import Agent
from ding.config.example.PG import supported_env_cfg


class PGAgent(Agent):
    """REINFORCE (see :class:`ding.policy.PGPolicy`) on envs with discrete or continuous actions."""

    algorithm = "PG"
    policy_type = "pg"
    action_kinds = ("discrete", "continuous")
    names_action_space = True
    supported_env_list = tuple(supported_env_cfg)
    policy_defaults = {"collect": {"n_episode": 8}, "eval": {"evaluator": {"eval_freq": 100}}}
