"""Agents of policy gradients, with and without a critic."""

from ding.bonus.agent import Agent
from ding.config.example.A2C import supported_env_cfg as a2c_configs
from ding.config.example.PG import supported_env_cfg as pg_configs
from ding.config.example.PPOOffPolicy import supported_env_cfg as ppo_offpolicy_configs


class PPOAgent(Agent):
    """On-policy PPO (see :class:`ding.policy.PPOPolicy`) on envs with discrete or continuous actions."""

    algorithm = "PPO"
    policy_type = "ppo"
    action_kinds = ("discrete", "continuous")
    names_action_space = True
    # As in configs/cartpole, with less discount.
    policy_defaults = {
        "learn": {"epoch_per_collect": 2, "batch_size": 64, "learning_rate": 0.001, "entropy_weight": 0.01},
        "collect": {"n_sample": 256, "discount_factor": 0.97},
        "eval": {"evaluator": {"eval_freq": 100}},
    }


class PPOOffPolicyAgent(Agent):
    """PPO with a replay buffer (see :class:`ding.policy.PPOOffPolicy`) on envs with discrete or continuous actions."""

    algorithm = "PPOOffPolicy"
    policy_type = "ppo_offpolicy"
    action_kinds = ("discrete", "continuous")
    names_action_space = True
    supported_env_list = tuple(ppo_offpolicy_configs)
    policy_defaults = {
        "learn": {"update_per_collect": 4, "adv_norm": True},
        "collect": {"n_sample": 128},
        "eval": {"evaluator": {"eval_freq": 200}},
        # A few collections: older samples are too far from the policy.
        "other": {"replay_buffer": {"replay_buffer_size": 512}},
    }


class A2CAgent(Agent):
    """A2C (see :class:`ding.policy.A2CPolicy`) on envs with discrete or continuous actions."""

    algorithm = "A2C"
    policy_type = "a2c"
    action_kinds = ("discrete", "continuous")
    names_action_space = True
    supported_env_list = tuple(a2c_configs)
    policy_defaults = {
        "learn": {"batch_size": 40},
        "collect": {"n_sample": 80, "discount_factor": 0.95},
        "eval": {"evaluator": {"eval_freq": 100}},
    }


class PGAgent(Agent):
    """REINFORCE (see :class:`ding.policy.PGPolicy`) on envs with discrete or continuous actions."""

    algorithm = "PG"
    policy_type = "pg"
    action_kinds = ("discrete", "continuous")
    names_action_space = True
    supported_env_list = tuple(pg_configs)
    policy_defaults = {"collect": {"n_episode": 8}, "eval": {"evaluator": {"eval_freq": 100}}}
