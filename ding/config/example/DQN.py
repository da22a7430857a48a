"""DQN: tuned settings over the defaults, by env id."""

from typing import Any

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, example, factories, replay


def _atari(env_id: str, stop_value: float, other: dict[str, Any], n_sample: int) -> EasyDict:
    return example(
        "DQN",
        {"env_id": env_id, "stop_value": stop_value, "env_wrapper": "atari_default"},
        {"obs_shape": [4, 84, 84], "action_shape": 6, "encoder_hidden_size_list": [128, 128, 512]},
        {"update_per_collect": 10, "batch_size": 32, "learning_rate": 0.0001, "target_update_freq": 500},
        cuda="auto",
        nstep=3,
        discount_factor=0.99,
        collect={"n_sample": n_sample},
        eval={"evaluator": {"eval_freq": 4000}},
        other=other,
    )


supported_env_cfg: dict[str, EasyDict] = {
    # As in configs/cartpole, with the stop value of Gymnasium.
    "CartPole-v1": example(
        "DQN",
        {"env_id": "CartPole-v1", "evaluator_env_num": 5, "n_evaluator_episode": 5, "stop_value": 475},
        {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [128, 128, 64], "dueling": True},
        {"update_per_collect": 5, "batch_size": 64, "learning_rate": 0.001},
        nstep=1,
        discount_factor=0.97,
        collect={"n_sample": 8},
        eval={"evaluator": {"eval_freq": 40}},
        other=replay(0.95, 0.1, 10000, 20000),
    ),
    "LunarLander-v3": example(
        "DQN",
        {"env_id": "LunarLander-v3", "stop_value": 260},
        {"obs_shape": 8, "action_shape": 4, "encoder_hidden_size_list": [512, 64], "dueling": True},
        {"update_per_collect": 10, "batch_size": 64, "learning_rate": 0.001, "target_update_freq": 100},
        nstep=3,
        discount_factor=0.99,
        random_collect_size=25000,
        collect={"n_sample": 64},
        eval={"evaluator": {"eval_freq": 1000}},
        other=replay(0.95, 0.1, 50000, 100000),
    ),
    "PongNoFrameskip-v4": _atari("PongNoFrameskip-v4", 20, replay(1, 0.05, 250000, 100000), 96),
    "QbertNoFrameskip-v4": _atari("QbertNoFrameskip-v4", 30000, replay(1, 0.05, 1000000, 400000), 100),
    "SpaceInvadersNoFrameskip-v4": _atari("SpaceInvadersNoFrameskip-v4", 2000, replay(1, 0.05, 1000000, 400000), 100),
}

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
