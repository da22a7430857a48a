"""DQN on Pong in frames of 42 x 42 with a small network, for a machine without GPU.

The real Arcade Learning Environment (extra `atari`) as in `pong_dqn_config.py`: four frames per action, a stack of
four, -21 at the start and 21 at best. An update costs an eighth of that config's, so that there are twice as many
per env step.

Result: not run to its end; -21 on seed 0 after 41,232 env steps (see docs/results.md).
"""

from easydict import EasyDict

pong_dqn_small_config = dict(
    exp_name="pong_dqn_small_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        frame_stack=4,
        frame_size=42,
        collector_env_num=8,
        evaluator_env_num=4,
        n_evaluator_episode=4,
        stop_value=18,
    ),
    policy=dict(
        cuda=False,
        priority=False,
        model=dict(obs_shape=[4, 42, 42], action_shape=6, encoder_hidden_size_list=[16, 32, 64, 256]),
        nstep=3,
        discount_factor=0.99,
        random_collect_size=4800,
        learn=dict(
            update_per_collect=32,
            batch_size=32,
            learning_rate=0.0002,
            target_update_freq=1000,
            grad_clip_type="clip_norm",
            grad_clip_value=10,
        ),
        collect=dict(n_sample=96),
        # In train iterations: every 100 passes, 9,600 env steps.
        eval=dict(evaluator=dict(eval_freq=3200)),
        other=dict(
            eps=dict(type="exp", start=1.0, end=0.02, decay=30000),
            # Each frame is stored once, although it is in four stacks of obs and next_obs.
            replay_buffer=dict(replay_buffer_size=100000, frame_stack=4),
        ),
    ),
)
main_config = EasyDict(pong_dqn_small_config)

pong_dqn_small_create_config = dict(
    env=dict(type="atari", import_names=["ding.envs.zoo.atari_env"]),
    # All games in ale-py's vector env; 'env_pool' takes EnvPool's, 'subprocess' a process for each.
    env_manager=dict(type="gym_vector"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(pong_dqn_small_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
