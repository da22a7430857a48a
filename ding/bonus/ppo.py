"""The agent of on-policy PPO."""

from ding.bonus.core.agent import Agent


class PPOAgent(Agent):
    """On-policy PPO (see :class:`ding.policy.PPOPolicy`) on envs with discrete, continuous or hybrid actions."""

    algorithm = "PPO"
    policy_type = "ppo"
    action_kinds = ("discrete", "continuous", "hybrid")
    names_action_space = True
    # As in configs/cartpole, with a lower discount factor.
    policy_defaults = {
        "learn": {"epoch_per_collect": 2, "batch_size": 64, "learning_rate": 0.001, "entropy_weight": 0.01},
        "collect": {"n_sample": 256, "discount_factor": 0.97},
        "eval": {"evaluator": {"eval_freq": 100}},
    }
