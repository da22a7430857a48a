"""A2C: tuned settings over the defaults, by env id."""

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, example, factories

supported_env_cfg: dict[str, EasyDict] = {
    "LunarLander-v3": example(
        "A2C",
        {"env_id": "LunarLander-v3", "stop_value": 260},
        {"obs_shape": 8, "action_shape": 4, "action_space": "discrete"},
        {"batch_size": 64, "learning_rate": 0.0003, "entropy_weight": 0.001, "adv_norm": True},
        action_space="discrete",
        collect={"n_sample": 64, "discount_factor": 0.99, "gae_lambda": 0.95},
    ),
    "BipedalWalker-v3": example(
        "A2C",
        {"env_id": "BipedalWalker-v3", "act_scale": True, "rew_clip": True},
        {"obs_shape": 24, "action_shape": 4, "action_space": "continuous"},
        {"batch_size": 64, "learning_rate": 0.0003, "value_weight": 0.7, "entropy_weight": 0.0005, "adv_norm": True},
        action_space="continuous",
        collect={"n_sample": 64, "discount_factor": 0.99, "gae_lambda": 0.95},
    ),
}

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
