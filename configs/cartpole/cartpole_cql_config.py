"""Discrete CQL on CartPole-v1: the numbers of DI-engine's config of the same name, but single steps and 8 quantiles.

With 64, as there, the quantile regression is so large that the conservative term has little weight beside it.

Its data: `python configs/cartpole/cartpole_dqn_generation_data_config.py`.
"""

from easydict import EasyDict

cartpole_cql_config = dict(
    exp_name="cartpole_cql_seed0",
    env=dict(
        env_id="CartPole-v1",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[128, 128, 64],
            num_quantiles=8,
        ),
        nstep=1,
        discount_factor=0.97,
        learn=dict(
            train_epoch=3000,
            batch_size=64,
            learning_rate=0.001,
            target_update_freq=100,
        ),
        collect=dict(
            data_type="columns",
            data_path="cartpole_dqn_generation_data/data",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=100,
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_cql_config)

cartpole_cql_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="discrete_cql",
    ),
)
create_config = EasyDict(cartpole_cql_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
