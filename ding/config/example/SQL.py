"""Soft Q-learning: tuned settings over the defaults, by env id."""

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, example, factories, replay

supported_env_cfg: dict[str, EasyDict] = {
    "LunarLander-v3": example(
        "SQL",
        {"env_id": "LunarLander-v3", "stop_value": 260},
        {"obs_shape": 8, "action_shape": 4, "encoder_hidden_size_list": [128, 128, 64], "dueling": True},
        {"batch_size": 64, "learning_rate": 0.001, "alpha": 0.08},
        nstep=1,
        discount_factor=0.97,
        collect={"n_sample": 64},
        eval={"evaluator": {"eval_freq": 50}},
        other=replay(0.95, 0.1, 10000, 20000),
    ),
}

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
