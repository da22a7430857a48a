"""The agent of soft Q-learning."""

from ding.bonus.core.agent import Agent
from ding.config.example.SQL import supported_env_cfg


class SQLAgent(Agent):
    """Soft Q-learning (see :class:`ding.policy.SQLPolicy`) on envs with discrete actions."""

    algorithm = "SQL"
    policy_type = "sql"
    action_kinds = ("discrete",)
    supported_env_list = tuple(supported_env_cfg)
