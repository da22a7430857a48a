"""XQL on Pendulum-v1.

Its data: `python configs/pendulum/pendulum_sac_data_generation_config.py`.

Result: returns of -208, -151 and -187 on seeds 0 to 2 after 500, 14,500 and 1,000 train iterations.
"""

from easydict import EasyDict

pendulum_xql_config = dict(
    exp_name="pendulum_xql_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=3,
            action_shape=1,
            twin_critic=True,
            actor_head_hidden_size=128,
            actor_head_layer_num=1,
            critic_head_hidden_size=128,
            critic_head_layer_num=1,
            action_space="reparameterization",
        ),
        learn=dict(
            train_epoch=1000,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            ignore_done=True,
            value_temperature=5.0,
            beta=0.3,
        ),
        collect=dict(
            data_type="columns",
            data_path="pendulum_sac_data_generation/data",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=500,
            ),
        ),
    ),
)
main_config = EasyDict(pendulum_xql_config)

pendulum_xql_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="xql",
    ),
)
create_config = EasyDict(pendulum_xql_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
