"""R2D2 on a T-maze, where a policy without memory has a mean return of at most 0."""

from easydict import EasyDict

t_maze_r2d2_config = dict(
    exp_name="t_maze_r2d2_seed0",
    env=dict(
        corridor_length=8,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=0.95,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=2,
            action_shape=3,
            encoder_hidden_size_list=[64, 64],
        ),
        discount_factor=0.98,
        nstep=5,
        burnin_step=0,
        learn_unroll_len=36,
        learn=dict(
            update_per_collect=8,
            batch_size=64,
            learning_rate=0.001,
            target_update_theta=0.01,
        ),
        collect=dict(
            n_sample=32,
            env_num=8,
        ),
        eval=dict(
            env_num=8,
            evaluator=dict(
                eval_freq=20,
            ),
        ),
        other=dict(
            eps=dict(
                type="exp",
                start=0.95,
                end=0.05,
                decay=20000,
            ),
            replay_buffer=dict(
                replay_buffer_size=100000,
            ),
        ),
    ),
)
main_config = EasyDict(t_maze_r2d2_config)

t_maze_r2d2_create_config = dict(
    env=dict(
        type="t_maze",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="r2d2",
    ),
)
create_config = EasyDict(t_maze_r2d2_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
