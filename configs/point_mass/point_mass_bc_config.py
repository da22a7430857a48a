"""Behaviour cloning on a point mass that passes a disc on one of two sides: the mean of the two sides hits the disc.

Its data: `python configs/point_mass/point_mass_data_generation.py`.
"""

from easydict import EasyDict

point_mass_bc_config = dict(
    exp_name="point_mass_bc_seed0",
    env=dict(
        env_id="point_mass-v0",
        evaluator_env_num=20,
        n_evaluator_episode=20,
        stop_value=10,
    ),
    policy=dict(
        cuda=False,
        continuous=True,
        loss_type="mse_loss",
        model=dict(
            obs_shape=4,
            action_shape=2,
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
            data_type="d4rl",
            data_path="point_mass_data/point_mass-v0.hdf5",
        ),
        eval=dict(evaluator=dict(eval_freq=1000)),
    ),
)
main_config = EasyDict(point_mass_bc_config)

point_mass_bc_create_config = dict(
    env=dict(type="point_mass"),
    env_manager=dict(type="base"),
    policy=dict(type="bc"),
)
create_config = EasyDict(point_mass_bc_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_bc

    serial_pipeline_bc((main_config, create_config), seed=0)
