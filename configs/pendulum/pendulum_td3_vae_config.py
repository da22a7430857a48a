"""TD3-VAE on Pendulum-v1.

Result: the stop value after 7,840, 12,640 and 7,840 env steps on seeds 0 to 2 (docs/results.md).
"""

from easydict import EasyDict

pendulum_td3_vae_config = dict(
    exp_name="pendulum_td3_vae_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=4,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=2000,
        # The env's action has one dimension, the latent action two.
        original_action_shape=1,
        model=dict(
            obs_shape=3,
            action_shape=2,
            twin_critic=True,
            action_space="regression",
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            warm_up_update=1000,
            rl_vae_update_circle=1,
            update_per_collect_rl=32,
            update_per_collect_vae=2,
            batch_size=128,
            learning_rate_actor=0.001,
            learning_rate_critic=0.001,
            learning_rate_vae=0.0003,
            ignore_done=True,
            noise_sigma=0.1,
        ),
        collect=dict(n_sample=64, noise_sigma=0.1),
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(replay_buffer=dict(replay_buffer_size=20000)),
    ),
)
main_config = EasyDict(pendulum_td3_vae_config)

pendulum_td3_vae_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="td3_vae"),
)
create_config = EasyDict(pendulum_td3_vae_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_td3_vae

    serial_pipeline_td3_vae((main_config, create_config), seed=0)
