"""The data sets of the offline configs of Pendulum: `python configs/pendulum/pendulum_sac_data_generation_config.py`.

Trains SAC, then writes what its policy does, which draws its actions: 20,000 transitions to
`pendulum_sac_data_generation/data`, 50 whole episodes to `pendulum_sac_data_generation/episodes`, and to the folder
`pendulum_sac_data_generation/mixed` 20,000 transitions of it beside 20,000 of the policy before it learned.
"""

from easydict import EasyDict

pendulum_sac_data_generation_config = dict(
    exp_name="pendulum_sac_data_generation",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=10,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-180,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=1000,
        model=dict(
            obs_shape=3,
            action_shape=1,
            action_space="reparameterization",
            twin_critic=True,
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=1,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.0003,
            ignore_done=True,
            target_theta=0.005,
            discount_factor=0.99,
            auto_alpha=True,
        ),
        collect=dict(n_sample=10),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
)
main_config = EasyDict(pendulum_sac_data_generation_config)

pendulum_sac_data_generation_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="sac"),
)
create_config = EasyDict(pendulum_sac_data_generation_create_config)

if __name__ == "__main__":
    from ding.entry import collect_demo_data, collect_episodic_demo_data, serial_pipeline

    expert = serial_pipeline((main_config, create_config), seed=0)
    weights = expert.collect_mode.state_dict()
    folder = main_config.exp_name
    main_config.policy.collect.data_type = "columns"
    collect_demo_data((main_config, create_config), 0, 20000, f"{folder}/data", state_dict=weights)
    collect_demo_data((main_config, create_config), 1, 20000, f"{folder}/mixed/trained", state_dict=weights)
    first = f"{folder}/ckpt/iteration_0.pth.tar"
    collect_demo_data((main_config, create_config), 2, 20000, f"{folder}/mixed/untrained", state_dict_path=first)
    main_config.policy.collect.data_type = "naive"
    collect_episodic_demo_data((main_config, create_config), 0, 50, f"{folder}/episodes", state_dict=weights)
