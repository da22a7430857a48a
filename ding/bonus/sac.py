"""The agents of SAC, TQC, REDQ, DroQ and CrossQ."""

from ding.bonus.core.agent import Agent
from ding.config.example.SAC import supported_env_cfg


class SACAgent(Agent):
    """SAC (see :class:`ding.policy.SACPolicy`) on envs with continuous actions."""

    algorithm = "SAC"
    policy_type = "sac"
    action_kinds = ("continuous",)
    encodes_vectors = False
    supported_env_list = tuple(supported_env_cfg)
    # One update per env step.
    policy_defaults = {
        "random_collect_size": 1000,
        "model": {"actor_head_hidden_size": 256, "critic_head_hidden_size": 256},
        "learn": {"update_per_collect": 8, "batch_size": 256},
        "collect": {"n_sample": 8},
        "eval": {"evaluator": {"eval_freq": 1000}},
        "other": {"replay_buffer": {"replay_buffer_size": 100000}},
    }


class TQCAgent(SACAgent):
    """TQC (see :class:`ding.policy.TQCPolicy`) on envs with continuous actions."""

    algorithm = "TQC"
    policy_type = "tqc"
    supported_env_list = ()
    policy_defaults = {
        **SACAgent.policy_defaults,
        # Two critics of the size of SAC's: a sixth of the computation of the paper's five.
        "model": {"ensemble_num": 2, "critic_head_hidden_size": 256, "critic_head_layer_num": 2},
    }


class CrossQAgent(SACAgent):
    """CrossQ (see :class:`ding.policy.CrossQPolicy`) on envs with continuous actions."""

    algorithm = "CrossQ"
    policy_type = "crossq"
    supported_env_list = ()
    policy_defaults = {
        **SACAgent.policy_defaults,
        # The paper's width of 2048 needs 40 times the computation.
        "model": {"critic_head_hidden_size": 256},
    }


class REDQAgent(SACAgent):
    """REDQ (see :class:`ding.policy.REDQPolicy`) on envs with continuous actions."""

    algorithm = "REDQ"
    policy_type = "redq"
    supported_env_list = ()
    # 20 updates per env step.
    policy_defaults = {
        **SACAgent.policy_defaults,
        "model": {},
        "learn": {"update_per_collect": 20},
        "collect": {"n_sample": 1},
        "eval": {"evaluator": {"eval_freq": 20000}},
    }


class DroQAgent(REDQAgent):
    """DroQ (see :class:`ding.policy.DroQPolicy`) on envs with continuous actions."""

    algorithm = "DroQ"
    policy_type = "droq"
