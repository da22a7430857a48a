"""PPO on MountainCar-v0: drive out of the valley; -1 per step, 200 steps at most, and no reward on the way.

Result: evaluation return -113, -118 and -116 on seeds 0, 1 and 2, after 20,480, 25,600 and 10,240 env steps (of up to
four frames), in 4 to 7 seconds of CPU time.
"""

from easydict import EasyDict

mountaincar_ppo_config = dict(
    exp_name="mountaincar_ppo_seed0",
    env=dict(
        env_id="MountainCar-v0",
        env_wrapper=[
            dict(type="action_repeat", kwargs=dict(action_repeat=4)),
            # Without an end at the limit each state is worth the same until the first success, and nothing is learned.
            dict(type="time_limit_is_end"),
            # Positions are within [-1.2, 0.6] and velocities within +-0.07: unscaled, the network hardly sees those.
            dict(type="static_obs_norm", kwargs=dict(mean=[-0.3, 0.0], std=[0.3, 0.0233])),
            dict(type="eval_episode_return"),
        ],
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=-120,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=2,
            action_shape=3,
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=128,
            learning_rate=0.001,
            entropy_weight=0.01,
        ),
        collect=dict(
            n_sample=512,
            discount_factor=0.99,
            gae_lambda=0.98,
        ),
        eval=dict(
            evaluator=dict(
                # In train iterations: every 10 passes, 5,120 env steps (of four frames).
                eval_freq=160,
            ),
        ),
    ),
)
main_config = EasyDict(mountaincar_ppo_config)

mountaincar_ppo_create_config = dict(
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
create_config = EasyDict(mountaincar_ppo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
