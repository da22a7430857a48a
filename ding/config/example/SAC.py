"""SAC: tuned settings over the defaults, by env id."""

from functools import partial
from typing import Any

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, control, factories

_control = partial(control, "SAC", "reparameterization")


def _robot(env_id: str, stop_value: float, env_num: int, sizes: tuple[int, int], **learn: Any) -> EasyDict:
    return _control(
        {"env_id": env_id, "stop_value": stop_value, "collector_env_num": env_num},
        sizes,
        256,
        {
            "update_per_collect": 1,
            "batch_size": 256,
            "learning_rate_q": 0.001,
            "learning_rate_policy": 0.001,
            "learning_rate_alpha": 0.0003,
            "auto_alpha": False,
            **learn,
        },
        random_collect_size=10000,
        collect={"n_sample": 1},
        other={"replay_buffer": {"replay_buffer_size": 1000000}},
    )


supported_env_cfg: dict[str, EasyDict] = {
    "Pendulum-v1": _control(
        {"env_id": "Pendulum-v1", "stop_value": -250, "evaluator_env_num": 5, "collector_env_num": 10},
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
    "HalfCheetah-v5": _robot("HalfCheetah-v5", 12000, 1, (17, 6), ignore_done=True),
    "Hopper-v5": _robot("Hopper-v5", 6000, 8, (11, 3)),
    "Walker2d-v5": _robot("Walker2d-v5", 6000, 8, (17, 6)),
}

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
