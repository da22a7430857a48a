"""TD3 on LunarLanderContinuous, with the numbers of DI-engine's config of the same name (extra `box2d`).

Result, with compiled updates: returns of 205, 200 and 209 on seeds 0 to 2 after 72,572, 297,880 and 38,792 env steps.
Seed 5 hovers: 39 after 300,144.
"""

from easydict import EasyDict

lunarlander_cont_td3_config = dict(
    exp_name="lunarlander_cont_td3_seed0",
    env=dict(
        env_id="LunarLanderContinuous-v3",
        act_scale=True,
        collector_env_num=4,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=200,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=10000,
        model=dict(
            obs_shape=8,
            action_shape=2,
            twin_critic=True,
            action_space="regression",
        ),
        learn=dict(
            update_per_collect=256,
            batch_size=128,
            learning_rate_actor=0.0003,
            learning_rate_critic=0.001,
            actor_update_freq=2,
            noise=True,
            noise_sigma=0.1,
            noise_range=dict(min=-0.5, max=0.5),
        ),
        collect=dict(n_sample=256, noise_sigma=0.1),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
)
main_config = EasyDict(lunarlander_cont_td3_config)

lunarlander_cont_td3_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="td3"),
)
create_config = EasyDict(lunarlander_cont_td3_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
