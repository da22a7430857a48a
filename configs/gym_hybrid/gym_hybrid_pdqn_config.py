"""P-DQN on the built-in Moving-v0, after DI-engine's config of the same name.

Result: the stop value was not reached: on seed 0 the return went from -1.20 to -0.36 in 103,088 env steps.
"""

from easydict import EasyDict

gym_hybrid_pdqn_config = dict(
    exp_name="gym_hybrid_pdqn_seed0",
    env=dict(
        env_id="Moving-v0",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=1.8,
    ),
    policy=dict(
        cuda=False,
        discount_factor=0.99,
        nstep=1,
        model=dict(
            obs_shape=10,
            action_shape=dict(action_type_shape=3, action_args_shape=2),
        ),
        learn=dict(
            update_per_collect=500,
            batch_size=320,
            learning_rate_dis=0.0003,
            learning_rate_cont=0.0003,
            target_theta=0.001,
            update_circle=10,
        ),
        collect=dict(n_sample=3200, noise_sigma=0.1),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(
            eps=dict(type="exp", start=1, end=0.1, decay=100000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = EasyDict(gym_hybrid_pdqn_config)

gym_hybrid_pdqn_create_config = dict(
    env=dict(type="gym_hybrid", import_names=["ding.envs.zoo.gym_hybrid_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="pdqn"),
)
create_config = EasyDict(gym_hybrid_pdqn_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
