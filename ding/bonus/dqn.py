"""Agents of Q-learning."""

from ding.bonus.agent import Agent
from ding.config.example.C51 import supported_env_cfg as c51_configs
from ding.config.example.DQN import supported_env_cfg as dqn_configs
from ding.config.example.SQL import supported_env_cfg as sql_configs


class DQNAgent(Agent):
    """DQN (see :class:`ding.policy.DQNPolicy`) on envs with discrete actions."""

    algorithm = "DQN"
    policy_type = "dqn"
    action_kinds = ("discrete",)
    supported_env_list = tuple(dqn_configs)


class C51Agent(Agent):
    """C51 (see :class:`ding.policy.C51Policy`) on envs with discrete actions.

    ``policy.model.v_min`` and ``v_max`` bound the discounted returns that it can tell apart, by default -10 and 10.
    """

    algorithm = "C51"
    policy_type = "c51"
    action_kinds = ("discrete",)
    supported_env_list = tuple(c51_configs)


class SQLAgent(Agent):
    """Soft Q-learning (see :class:`ding.policy.SQLPolicy`) on envs with discrete actions."""

    algorithm = "SQL"
    policy_type = "sql"
    action_kinds = ("discrete",)
    supported_env_list = tuple(sql_configs)
