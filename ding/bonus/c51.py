"""The agent of C51."""

from ding.bonus.core.agent import Agent
from ding.config.example.C51 import supported_env_cfg


class C51Agent(Agent):
    """C51 (see :class:`ding.policy.C51Policy`) on envs with discrete actions.

    ``policy.model.v_min`` and ``v_max`` bound the support of the discounted return, by default -10 and 10.
    """

    algorithm = "C51"
    policy_type = "c51"
    action_kinds = ("discrete",)
    supported_env_list = tuple(supported_env_cfg)
