"""DQN on Pong (extra `atari`, the real Arcade Learning Environment): -21 at the start, 21 at best.

Result so far, on seed 0 with single envs: -20 after 144,000 env steps (of four frames), -18 after 199,000,
-8 after 253,000 to 289,000, and -19.5 after 307,000, where the run was ended after an hour, a part of it standing still
for other work. About 200 env steps/s on a core without GPU.
The stop value has not been seen. With a network of 16 and 32 channels and learning rate 0.00025 all units of the last
convolution died within 10,000 iterations, and the return stayed at -21.
"""

from easydict import EasyDict

pong_dqn_config = dict(
    exp_name="pong_dqn_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        frame_stack=4,
        collector_env_num=8,
        evaluator_env_num=4,
        n_evaluator_episode=4,
        stop_value=18,
    ),
    policy=dict(
        cuda=False,
        priority=False,
        model=dict(obs_shape=[4, 84, 84], action_shape=6, encoder_hidden_size_list=[32, 64, 64, 512]),
        nstep=3,
        discount_factor=0.99,
        learn=dict(update_per_collect=16, batch_size=32, learning_rate=0.0001, target_update_freq=1000),
        collect=dict(n_sample=96),
        # In train iterations: about every 18,000 env steps.
        eval=dict(evaluator=dict(eval_freq=3000)),
        other=dict(
            eps=dict(type="exp", start=1.0, end=0.05, decay=50000),
            # Each 84 x 84 frame is stored once, although it is in four stacks of obs and next_obs: 3 GB instead of 22.
            replay_buffer=dict(replay_buffer_size=100000, frame_stack=4),
        ),
    ),
)
main_config = EasyDict(pong_dqn_config)

pong_dqn_create_config = dict(
    env=dict(type="atari", import_names=["ding.envs.zoo.atari_env"]),
    # All games in ale-py's vector env; 'env_pool' takes EnvPool's, 'subprocess' a process for each.
    env_manager=dict(type="gym_vector"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(pong_dqn_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
