"""Planning with diffusion on a point mass that passes a disc on one of two sides.

Result: returns of 0.54, 1.17 and 0.24 on seeds 0, 1 and 2, where behaviour cloning has -0.75 (docs/results.md).

Its data: `python configs/point_mass/point_mass_data_generation.py`.
"""

from easydict import EasyDict

obs_dim, action_dim, horizon, n_timesteps = 4, 2, 16, 10
sizes = dict(horizon=horizon, obs_dim=obs_dim, action_dim=action_dim, n_timesteps=n_timesteps)
network = dict(transition_dim=obs_dim + action_dim, dim=16, dim_mults=[1, 2], kernel_size=5)

point_mass_pd_config = dict(
    exp_name="point_mass_pd_seed0",
    env=dict(
        env_id="point_mass-v0",
        evaluator_env_num=10,
        n_evaluator_episode=10,
        stop_value=10,
        # How the data set makes windows of the episodes.
        returns_scale=1.0,
        horizon=horizon,
        max_path_length=80,
        use_padding=True,
        include_returns=True,
        termination_penalty=None,
        normed=False,
    ),
    policy=dict(
        cuda=False,
        normalizer="GaussianNormalizer",
        model=dict(
            diffuser_model="GaussianDiffusion",
            diffuser_model_cfg=dict(
                model="DiffusionUNet1d", model_cfg=network, predict_epsilon=False, action_weight=10, **sizes
            ),
            value_model="ValueDiffusion",
            value_model_cfg=dict(model="TemporalValue", model_cfg=dict(horizon=horizon, **network), **sizes),
            n_guide_steps=2,
            scale=0.1,
            t_stopgrad=2,
            scale_grad_by_std=True,
        ),
        learn=dict(
            train_epoch=60000,
            gradient_accumulate_every=1,
            batch_size=64,
            learning_rate=0.001,
            discount_factor=0.99,
            plan_batch_size=8,
        ),
        collect=dict(
            data_type="diffuser_traj",
            data_path="point_mass_data/point_mass-v0.hdf5",
        ),
        eval=dict(evaluator=dict(eval_freq=1000)),
    ),
)
main_config = EasyDict(point_mass_pd_config)

point_mass_pd_create_config = dict(
    env=dict(type="point_mass"),
    env_manager=dict(type="base"),
    policy=dict(type="pd"),
)
create_config = EasyDict(point_mass_pd_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0, max_train_iter=1000)
