"""The data sets of the offline configs of CartPole: `python configs/cartpole/cartpole_dqn_generation_data_config.py`.

Trains DQN, then writes what its greedy policy does: 10,000 transitions to `cartpole_dqn_generation_data/data`, 50 whole
episodes to `cartpole_dqn_generation_data/episodes`.
"""

from easydict import EasyDict

cartpole_dqn_generation_data_config = dict(
    exp_name="cartpole_dqn_generation_data",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=400,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[128, 128, 64],
            dueling=True,
        ),
        nstep=1,
        discount_factor=0.97,
        learn=dict(
            update_per_collect=5,
            batch_size=64,
            learning_rate=0.001,
        ),
        collect=dict(n_sample=8),
        # In train iterations: every 8 passes, 64 env steps.
        eval=dict(evaluator=dict(eval_freq=40)),
        other=dict(
            # Epsilon over env steps.
            eps=dict(type="exp", start=0.95, end=0.1, decay=10000),
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = EasyDict(cartpole_dqn_generation_data_config)

cartpole_dqn_generation_data_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(cartpole_dqn_generation_data_create_config)

if __name__ == "__main__":
    from ding.entry import collect_demo_data, collect_episodic_demo_data, serial_pipeline

    expert = serial_pipeline((main_config, create_config), seed=0)
    weights = expert.collect_mode.state_dict()
    folder = main_config.exp_name
    main_config.policy.collect.data_type = "columns"
    collect_demo_data((main_config, create_config), 0, 10000, f"{folder}/data", state_dict=weights)
    main_config.policy.collect.data_type = "naive"
    collect_episodic_demo_data((main_config, create_config), 0, 50, f"{folder}/episodes", state_dict=weights)
