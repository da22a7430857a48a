"""PPO on LunarLanderContinuous-v3 (extra `box2d`), with the numbers of DI-engine's config of the same name.

Result: the stop value on seeds 0, 1 and 2 after 61,440, 51,200 and 51,200 env steps.
"""

from easydict import EasyDict

lunarlander_ppo_continuous_config = dict(
    exp_name="lunarlander_ppo_continuous_seed0",
    env=dict(
        env_id="LunarLanderContinuous-v3",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=10,
        stop_value=200,
    ),
    policy=dict(
        cuda=False,
        action_space="continuous",
        model=dict(
            obs_shape=8,
            action_shape=2,
            action_space="continuous",
        ),
        learn=dict(
            epoch_per_collect=5,
            batch_size=64,
            learning_rate=0.0003,
            entropy_weight=0.005,
        ),
        collect=dict(
            n_sample=512,
            discount_factor=0.99,
            gae_lambda=0.95,
        ),
        eval=dict(
            evaluator=dict(
                # In train iterations: every 20 passes, 10,240 env steps.
                eval_freq=800,
            ),
        ),
    ),
)
main_config = EasyDict(lunarlander_ppo_continuous_config)

lunarlander_ppo_continuous_create_config = dict(
    env=dict(
        type="lunarlander",
        import_names=["ding.envs.zoo.lunarlander_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="ppo",
    ),
)
create_config = EasyDict(lunarlander_ppo_continuous_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
