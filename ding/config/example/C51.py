"""C51: tuned settings over the defaults, by env id."""

from typing import Any

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, example, factories, replay


def _atari(env_id: str, stop_value: float, decay: int, size: int, **policy: Any) -> EasyDict:
    sizes = [128, 128, 512]
    return example(
        "C51",
        {"env_id": env_id, "stop_value": stop_value, "env_wrapper": "atari_default"},
        {
            "obs_shape": [4, 84, 84], "action_shape": 6, "encoder_hidden_size_list": sizes,
            "v_min": -10, "v_max": 10, "n_atom": 51,
        },
        {"update_per_collect": 10, "batch_size": 32, "learning_rate": 0.0001, "target_update_freq": 500},
        cuda="auto",
        nstep=3,
        discount_factor=0.99,
        collect={"n_sample": 100},
        eval={"evaluator": {"eval_freq": 4000}},
        other=replay(1, 0.05, decay, size),
        **policy,
    )  # fmt: skip


supported_env_cfg: dict[str, EasyDict] = {
    # As in configs/cartpole.
    "CartPole-v1": example(
        "C51",
        {"env_id": "CartPole-v1", "evaluator_env_num": 5, "stop_value": 475},
        {
            "obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [128, 128, 64],
            "v_min": -10, "v_max": 10, "n_atom": 51,
        },
        {"update_per_collect": 3, "batch_size": 64, "learning_rate": 0.001, "target_update_freq": 100},
        nstep=3,
        discount_factor=0.97,
        collect={"n_sample": 80},
        eval={"evaluator": {"eval_freq": 60}},
        other=replay(0.95, 0.1, 10000, 20000),
    ),
    "LunarLander-v3": example(
        "C51",
        {"env_id": "LunarLander-v3", "stop_value": 260},
        {
            "obs_shape": 8, "action_shape": 4, "encoder_hidden_size_list": [512, 64],
            "v_min": -30, "v_max": 30, "n_atom": 51,
        },
        {"update_per_collect": 10, "batch_size": 64, "learning_rate": 0.001, "target_update_freq": 100},
        nstep=3,
        discount_factor=0.99,
        collect={"n_sample": 64},
        eval={"evaluator": {"eval_freq": 1000}},
        other=replay(0.95, 0.1, 50000, 100000),
    ),
    "PongNoFrameskip-v4": _atari("PongNoFrameskip-v4", 20, 250000, 100000),
    "QbertNoFrameskip-v4": _atari("QbertNoFrameskip-v4", 30000, 1000000, 400000, priority=True),
    "SpaceInvadersNoFrameskip-v4": _atari("SpaceInvadersNoFrameskip-v4", 1e10, 1000000, 400000),
}  # fmt: skip

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
