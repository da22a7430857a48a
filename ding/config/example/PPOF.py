"""Compact PPO: tuned settings of a flat config over the defaults, by env id."""

from typing import Any

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, factories


def _config(env_id: str, **policy: Any) -> EasyDict:
    return EasyDict(env_id=env_id, exp_name=f"{env_id}-PPO", **policy)


def _atari(env_id: str, sizes: list[int], critic_layers: int = 1, **policy: Any) -> EasyDict:
    model = {"encoder_hidden_size_list": sizes, "actor_head_hidden_size": 128, "critic_head_hidden_size": 128}
    if critic_layers > 1:
        model["critic_head_layer_num"] = critic_layers
    return _config(env_id, model=model, **policy)


_SMALL, _LARGE = [64, 64, 128], [32, 64, 64, 128]
_ROBOTS = ("Hopper-v5", "HalfCheetah-v5", "Walker2d-v5")
_MUJOCO = {"action_space": "continuous", "n_sample": 3200, "batch_size": 320, "epoch_per_collect": 10}

supported_env_cfg: dict[str, EasyDict] = {
    "LunarLander-v3": _config("LunarLander-v3", n_sample=512, value_norm="popart", entropy_weight=1e-3),
    "LunarLanderContinuous-v3": _config("LunarLanderContinuous-v3", action_space="continuous", n_sample=400),
    "Pendulum-v1": _config("Pendulum-v1", action_space="continuous", n_sample=400, value_norm="deviation"),
    "BipedalWalker-v3": _config("BipedalWalker-v3", action_space="continuous", n_sample=1024, learning_rate=1e-3),
    "Acrobot-v1": _config("Acrobot-v1", n_sample=400, learning_rate=1e-4),
    **{
        f"{game}NoFrameskip-v4": _atari(
            f"{game}NoFrameskip-v4", _LARGE, 2, n_sample=1024, batch_size=128, epoch_per_collect=10, learning_rate=1e-4
        )
        for game in ("Kangaroo", "Bowling")
    },
    "PongNoFrameskip-v4": _atari(
        "PongNoFrameskip-v4", _SMALL, n_sample=3200, batch_size=320, epoch_per_collect=10, learning_rate=3e-4
    ),
    "QbertNoFrameskip-v4": _atari(
        "QbertNoFrameskip-v4", _SMALL, n_sample=3200, batch_size=320, epoch_per_collect=10, learning_rate=5e-4,
        lr_scheduler=(1000, 0.1),
    ),
    "SpaceInvadersNoFrameskip-v4": _atari(
        "SpaceInvadersNoFrameskip-v4", _SMALL, n_sample=320, batch_size=320, epoch_per_collect=1, learning_rate=1e-3,
        entropy_weight=0.01, lr_scheduler=(2000, 0.1),
    ),
    **{
        env_id: _config(env_id, **_MUJOCO, learning_rate=3e-4) for env_id in _ROBOTS
    },
}  # fmt: skip

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
