"""SAC: what a config sets over the defaults, by id of the env."""

from functools import partial

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, control, factories

_control = partial(control, "SAC", "reparameterization")

supported_env_cfg: dict[str, EasyDict] = {
    "Pendulum-v1": _control(
        {"env_id": "Pendulum-v1", "stop_value": -200, "evaluator_env_num": 5, "collector_env_num": 10},
        (3, 1),
        128,
        {
            "update_per_collect": 10,
            "batch_size": 256,
            "learning_rate_q": 0.001,
            "learning_rate_policy": 0.001,
            "learning_rate_alpha": 0.0003,
            "ignore_done": True,
        },
        random_collect_size=1000,
        collect={"n_sample": 10},
        eval={"evaluator": {"eval_freq": 500}},
        other={"replay_buffer": {"replay_buffer_size": 100000}},
    ),
    "LunarLanderContinuous-v3": _control(
        {"env_id": "LunarLanderContinuous-v3", "stop_value": 260, "collector_env_num": 4},
        (8, 2),
        64,
        {
            "update_per_collect": 256,
            "batch_size": 128,
            "learning_rate_q": 0.001,
            "learning_rate_policy": 0.0003,
            "learning_rate_alpha": 0.0003,
        },
        random_collect_size=10000,
        collect={"n_sample": 256},
        eval={"evaluator": {"eval_freq": 1000}},
        other={"replay_buffer": {"replay_buffer_size": 100000}},
    ),
    "BipedalWalker-v3": _control(
        {"env_id": "BipedalWalker-v3", "evaluator_env_num": 5, "rew_clip": True},
        (24, 4),
        128,
        {
            "update_per_collect": 64,
            "batch_size": 256,
            "learning_rate_q": 0.0003,
            "learning_rate_policy": 0.0003,
            "learning_rate_alpha": 0.0003,
        },
        random_collect_size=10000,
        collect={"n_sample": 64},
        other={"replay_buffer": {"replay_buffer_size": 300000}},
    ),
    "HalfCheetah-v5": _control(
        {"env_id": "HalfCheetah-v5", "stop_value": 12000, "collector_env_num": 1},
        (17, 6),
        256,
        {
            "update_per_collect": 1,
            "batch_size": 256,
            "learning_rate_q": 0.001,
            "learning_rate_policy": 0.001,
            "learning_rate_alpha": 0.0003,
            "auto_alpha": False,
            "ignore_done": True,
        },
        random_collect_size=10000,
        collect={"n_sample": 1},
        other={"replay_buffer": {"replay_buffer_size": 1000000}},
    ),
    "Hopper-v5": _control(
        {"env_id": "Hopper-v5", "stop_value": 6000, "collector_env_num": 8},
        (11, 3),
        256,
        {
            "update_per_collect": 1,
            "batch_size": 256,
            "learning_rate_q": 0.001,
            "learning_rate_policy": 0.001,
            "learning_rate_alpha": 0.0003,
            "auto_alpha": False,
        },
        random_collect_size=10000,
        collect={"n_sample": 1},
        other={"replay_buffer": {"replay_buffer_size": 1000000}},
    ),
}

supported_env: dict[str, EnvFactory] = factories(supported_env_cfg)
