"""PPO with a replay buffer: tuned settings over the defaults, by env id."""

from typing import Any

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, example, factories


def _atari(env_id: str, stop_value: float, sizes: list[int], env: dict[str, Any], **sections: Any) -> EasyDict:
    model = {
        "obs_shape": [4, 84, 84],
        "action_shape": 6,
        "action_space": "discrete",
        "encoder_hidden_size_list": sizes,
        "actor_head_hidden_size": 128,
        "critic_head_hidden_size": 128,
        **sections.pop("model", {}),
    }
    env = {"env_id": env_id, "stop_value": stop_value, "env_wrapper": "atari_default", **env}
    return example("PPOOffPolicy", env, model, sections.pop("learn"), cuda="auto", action_space="discrete", **sections)


def _busy_game(env_id: str, num_updates: int, entropy_weight: float) -> EasyDict:
    return _atari(
        env_id,
        1e10,
        [32, 64, 64, 128],
        {"collector_env_num": 16},
        model={"critic_head_layer_num": 2},
        learn={
            "update_per_collect": num_updates, "batch_size": 128, "learning_rate": 0.0001, "value_weight": 1.0,
            "entropy_weight": entropy_weight, "clip_ratio": 0.1, "adv_norm": False,
        },
        collect={"n_sample": 1024, "gae_lambda": 0.95},
    )  # fmt: skip


supported_env_cfg: dict[str, EasyDict] = {
    "LunarLander-v3": example(
        "PPOOffPolicy",
        {"env_id": "LunarLander-v3", "stop_value": 260},
        {"obs_shape": 8, "action_shape": 4, "action_space": "discrete"},
        {
            "update_per_collect": 4, "batch_size": 64, "learning_rate": 0.001, "value_weight": 0.5,
            "entropy_weight": 0.01, "clip_ratio": 0.2, "adv_norm": True,
        },
        action_space="discrete",
        nstep=1,
        collect={"n_sample": 128, "gae_lambda": 0.95},
    ),
    "PongNoFrameskip-v4": _atari(
        "PongNoFrameskip-v4",
        20,
        [64, 64, 128],
        {},
        learn={
            "update_per_collect": 10, "batch_size": 320, "learning_rate": 0.0003, "value_weight": 0.5,
            "entropy_weight": 0.001, "clip_ratio": 0.2, "grad_clip_type": "clip_norm", "grad_clip_value": 0.5,
        },
        collect={"n_sample": 3200, "gae_lambda": 0.95},
    ),
    "QbertNoFrameskip-v4": _busy_game("QbertNoFrameskip-v4", 18, 0.005),
    "SpaceInvadersNoFrameskip-v4": _busy_game("SpaceInvadersNoFrameskip-v4", 24, 0.03),
}  # fmt: skip

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
