"""DDPG: tuned settings over the defaults, by env id."""

from functools import partial
from typing import Any

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, control, factories

_control = partial(control, "DDPG", "regression", twin_critic=False)


def _robot(env_id: str, stop_value: float, env_num: int, sizes: tuple[int, int], **learn: Any) -> EasyDict:
    return _control(
        {"env_id": env_id, "stop_value": stop_value, "collector_env_num": env_num},
        sizes,
        256,
        {
            "update_per_collect": 1,
            "batch_size": 256,
            "learning_rate_actor": 0.001,
            "learning_rate_critic": 0.001,
            **learn,
        },
        random_collect_size=25000,
        collect={"n_sample": 1, "noise_sigma": 0.1},
        other={"replay_buffer": {"replay_buffer_size": 1000000}},
    )


supported_env_cfg: dict[str, EasyDict] = {
    "Pendulum-v1": _control(
        {"env_id": "Pendulum-v1", "stop_value": -250, "evaluator_env_num": 5},
        (3, 1),
        64,
        {
            "update_per_collect": 8,
            "batch_size": 256,
            "learning_rate_actor": 0.001,
            "learning_rate_critic": 0.001,
            "ignore_done": True,
        },
        random_collect_size=1000,
        collect={"n_sample": 8, "noise_sigma": 0.1},
        eval={"evaluator": {"eval_freq": 500}},
        other={"replay_buffer": {"replay_buffer_size": 100000}},
    ),
    "LunarLanderContinuous-v3": _control(
        {"env_id": "LunarLanderContinuous-v3", "stop_value": 260, "collector_env_num": 8},
        (8, 2),
        64,
        {"update_per_collect": 2, "batch_size": 128, "learning_rate_actor": 0.001, "learning_rate_critic": 0.001},
        twin_critic=True,
        random_collect_size=0,
        collect={"n_sample": 48, "noise_sigma": 0.1},
        eval={"evaluator": {"eval_freq": 100}},
        other={"replay_buffer": {"replay_buffer_size": 20000}},
    ),
    "BipedalWalker-v3": _control(
        {"env_id": "BipedalWalker-v3", "evaluator_env_num": 5, "rew_clip": True},
        (24, 4),
        400,
        {"update_per_collect": 64, "batch_size": 256, "learning_rate_actor": 0.0003, "learning_rate_critic": 0.0003},
        random_collect_size=10000,
        collect={"n_sample": 64, "noise_sigma": 0.1},
        other={"replay_buffer": {"replay_buffer_size": 300000}},
    ),
    "HalfCheetah-v5": _robot("HalfCheetah-v5", 11000, 1, (17, 6), ignore_done=True),
    "Hopper-v5": _robot("Hopper-v5", 6000, 1, (11, 3)),
    "Walker2d-v5": _robot("Walker2d-v5", 6000, 1, (17, 6)),
}

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
