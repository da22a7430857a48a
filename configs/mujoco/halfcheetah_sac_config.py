"""SAC on HalfCheetah-v5, with the numbers of DI-engine's config for HalfCheetah-v3 (extra `mujoco`).

Result: a return of 9,489 on seed 0 after 200,000 env steps, where the run was ended.
"""

from easydict import EasyDict

halfcheetah_sac_config = dict(
    exp_name="halfcheetah_sac_seed0",
    env=dict(
        env_id="HalfCheetah-v5",
        act_scale=True,
        collector_env_num=1,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=11000,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=10000,
        model=dict(
            obs_shape=17,
            action_shape=6,
            twin_critic=True,
            action_space="reparameterization",
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=1,
            batch_size=256,
            target_theta=0.005,
            discount_factor=0.99,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            alpha=0.2,
            auto_alpha=False,
            # An episode always lasts 1000 steps.
            ignore_done=True,
        ),
        collect=dict(n_sample=1),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(replay_buffer=dict(replay_buffer_size=1000000)),
    ),
)
main_config = EasyDict(halfcheetah_sac_config)

halfcheetah_sac_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="sac"),
)
create_config = EasyDict(halfcheetah_sac_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
