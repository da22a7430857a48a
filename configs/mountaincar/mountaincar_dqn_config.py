"""DQN on MountainCar-v0: drive out of the valley; -1 per step, 200 steps at most, and no reward on the way.

Result: evaluation return -116, -101 and -98 on seeds 0, 1 and 2, after 227,000, 170,000 and 247,000 env steps (of up to
four frames), in 165 to 215 s each (one core of a busy 2-core machine).
"""

from easydict import EasyDict

mountaincar_dqn_config = dict(
    exp_name="mountaincar_dqn_seed0",
    env=dict(
        env_id="MountainCar-v0",
        # An action is held for four steps: random actions then swing the car far enough to find the goal at times.
        env_wrapper=[dict(type="action_repeat", kwargs=dict(action_repeat=4)), dict(type="eval_episode_return")],
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=-120,
    ),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=2, action_shape=3, encoder_hidden_size_list=[256, 256], dueling=False),
        nstep=3,
        discount_factor=0.97,
        learn=dict(update_per_collect=8, batch_size=128, learning_rate=0.001, target_update_freq=300),
        collect=dict(n_sample=32),
        # In train iterations: every 100 passes, 3,200 env steps (of four frames).
        eval=dict(evaluator=dict(eval_freq=800)),
        other=dict(
            # Success is rare at first, so that exploration lasts.
            eps=dict(type="linear", start=1.0, end=0.07, decay=20000),
            replay_buffer=dict(replay_buffer_size=50000),
        ),
    ),
)
main_config = EasyDict(mountaincar_dqn_config)

mountaincar_dqn_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(mountaincar_dqn_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
