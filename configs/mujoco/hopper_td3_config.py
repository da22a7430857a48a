"""TD3 on Hopper-v5, with the numbers of DI-engine's config for Hopper-v3 (extra `mujoco`).

Result: a return of 2,781 on seed 0 after 200,000 env steps (3,376 at best), where the run was ended.
"""

from easydict import EasyDict

hopper_td3_config = dict(
    exp_name="hopper_td3_seed0",
    env=dict(
        env_id="Hopper-v5",
        act_scale=True,
        collector_env_num=1,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=6000,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=25000,
        model=dict(
            obs_shape=11,
            action_shape=3,
            twin_critic=True,
            action_space="regression",
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=1,
            batch_size=256,
            target_theta=0.005,
            discount_factor=0.99,
            learning_rate_actor=0.001,
            learning_rate_critic=0.001,
            actor_update_freq=2,
            noise=True,
            noise_sigma=0.2,
            noise_range=dict(min=-0.5, max=0.5),
        ),
        collect=dict(n_sample=1, noise_sigma=0.1),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(replay_buffer=dict(replay_buffer_size=1000000)),
    ),
)
main_config = EasyDict(hopper_td3_config)

hopper_td3_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="td3"),
)
create_config = EasyDict(hopper_td3_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
