"""The agent of DDPG."""

from ding.bonus.core.agent import Agent
from ding.config.example.DDPG import supported_env_cfg


class DDPGAgent(Agent):
    """DDPG (see :class:`ding.policy.DDPGPolicy`) on envs with continuous or hybrid actions."""

    algorithm = "DDPG"
    policy_type = "ddpg"
    action_kinds = ("continuous", "hybrid")
    encodes_vectors = False
    supported_env_list = tuple(supported_env_cfg)
    # One update per env step.
    policy_defaults = {
        "random_collect_size": 1000,
        "model": {
            "twin_critic": False,
            "actor_head_hidden_size": 256,
            "critic_head_hidden_size": 256,
        },
        "learn": {"update_per_collect": 8, "batch_size": 256},
        "collect": {"n_sample": 8},
        "eval": {"evaluator": {"eval_freq": 1000}},
        "other": {"replay_buffer": {"replay_buffer_size": 100000}},
    }
    hybrid_defaults = {
        "action_space": "hybrid",
        # Samples contain the network's logit, which random actions lack.
        "random_collect_size": 0,
        "model": {"action_space": "hybrid"},
        "other": {"eps": {"type": "exp", "start": 1.0, "end": 0.1, "decay": 10000}},
    }
