"""The agent of DQN."""

from ding.bonus.core.agent import Agent
from ding.config.example.DQN import supported_env_cfg


class DQNAgent(Agent):
    """DQN (see :class:`ding.policy.DQNPolicy`) on envs with discrete actions."""

    algorithm = "DQN"
    policy_type = "dqn"
    action_kinds = ("discrete",)
    supported_env_list = tuple(supported_env_cfg)
