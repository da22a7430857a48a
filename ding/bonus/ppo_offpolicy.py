"""The agent of PPO with a replay buffer."""

from ding.bonus.core.agent import Agent
from ding.config.example.PPOOffPolicy import supported_env_cfg


class PPOOffPolicyAgent(Agent):
    """PPO with a replay buffer (see :class:`ding.policy.PPOOffPolicy`) on envs with discrete or continuous actions."""

    algorithm = "PPOOffPolicy"
    policy_type = "ppo_offpolicy"
    action_kinds = ("discrete", "continuous")
    names_action_space = True
    supported_env_list = tuple(supported_env_cfg)
    policy_defaults = {
        "learn": {"update_per_collect": 16, "learning_rate": 3e-4, "entropy_weight": 0.01, "adv_norm": True},
        "collect": {"n_sample": 128},
        "eval": {"evaluator": {"eval_freq": 200}},
        # A few collections: older samples are too far off-policy.
        "other": {"replay_buffer": {"replay_buffer_size": 1024}},
    }
