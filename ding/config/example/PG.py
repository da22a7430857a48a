"""Policy gradients: tuned settings over the defaults, by env id."""

from easydict import EasyDict

from ding.config.example.envs import EnvFactory, example, factories

supported_env_cfg: dict[str, EasyDict] = {
    "Pendulum-v1": example(
        "PG",
        {"env_id": "Pendulum-v1", "evaluator_env_num": 5, "stop_value": -200, "act_scale": True},
        {"obs_shape": 3, "action_shape": 1, "action_space": "continuous"},
        {"batch_size": 4000, "learning_rate": 0.001, "entropy_weight": 0.001},
        action_space="continuous",
        collect={"n_episode": 20, "discount_factor": 0.99},
        eval={"evaluator": {"eval_freq": 1}},
    ),
}

supported_env: dict[str, EnvFactory] = factories(__name__, supported_env_cfg)
