"""Implicit behaviour cloning on Pendulum-v1, from data of SAC.

Result: the stop value on seeds 0, 1 and 2 after 1,500, 500 and 500 train iterations.

Its data: `python configs/pendulum/pendulum_sac_data_generation_config.py`.
"""

from easydict import EasyDict

pendulum_ibc_config = dict(
    exp_name="pendulum_ibc_seed0",
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
            hidden_size=128,
            hidden_layer_num=2,
            stochastic_optim=dict(
                type="dfo",
                train_samples=32,
                inference_samples=256,
                iters=3,
            ),
        ),
        learn=dict(
            train_epoch=100,
            batch_size=128,
            optim=dict(
                learning_rate=0.001,
            ),
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
main_config = EasyDict(pendulum_ibc_config)

pendulum_ibc_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="ibc",
    ),
)
create_config = EasyDict(pendulum_ibc_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
