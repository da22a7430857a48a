"""DQN on LunarLander-v3 (extra `box2d`): land softly between the flags; 200 counts as solved.

Result: evaluation return 206, 211 and 209 on seeds 0, 1 and 2, after 45,000, 109,000 and 166,000 env steps, in 145,
325 and 1,700 s (a 2-core machine with other work beside, much of it during the last run).
"""

from easydict import EasyDict

lunarlander_dqn_config = dict(
    exp_name="lunarlander_dqn_seed0",
    env=dict(
        env_id="LunarLander-v3",
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=200,
    ),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=8, action_shape=4, encoder_hidden_size_list=[256, 256], dueling=True),
        nstep=3,
        discount_factor=0.99,
        learn=dict(update_per_collect=10, batch_size=64, learning_rate=0.0005, target_update_freq=200),
        collect=dict(n_sample=64),
        # In train iterations: every 100 passes, 6,400 env steps.
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(
            eps=dict(type="exp", start=0.95, end=0.05, decay=30000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = EasyDict(lunarlander_dqn_config)

lunarlander_dqn_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(lunarlander_dqn_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
