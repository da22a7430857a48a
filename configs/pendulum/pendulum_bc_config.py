"""Behaviour cloning on Pendulum-v1, from data of SAC.

Result: the stop value on seeds 0, 1 and 2 after 500 train iterations each.

Its data: `python configs/pendulum/pendulum_sac_data_generation_config.py`.
"""

from easydict import EasyDict

pendulum_bc_config = dict(
    exp_name="pendulum_bc_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        continuous=True,
        loss_type="l1_loss",
        model=dict(
            obs_shape=3,
            action_shape=1,
            action_space="regression",
            actor_head_hidden_size=128,
        ),
        learn=dict(
            train_epoch=100,
            batch_size=128,
            optimizer="Adam",
            learning_rate=0.001,
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
main_config = EasyDict(pendulum_bc_config)

pendulum_bc_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="bc",
    ),
)
create_config = EasyDict(pendulum_bc_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_bc

    serial_pipeline_bc((main_config, create_config), seed=0)
