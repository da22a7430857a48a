"""Decision transformer on Pendulum-v1.

Its data: `python configs/pendulum/pendulum_sac_data_generation_config.py`. An epoch draws one window of each of the 50
episodes.
"""

from easydict import EasyDict

pendulum_dt_config = dict(
    exp_name="pendulum_dt_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
        # The policy has to see the rewards.
        env_wrapper=[dict(type="reward_in_obs"), dict(type="eval_episode_return")],
    ),
    policy=dict(
        cuda=False,
        model=dict(
            state_dim=3,
            act_dim=1,
            n_blocks=2,
            h_dim=64,
            context_len=10,
            n_heads=1,
            drop_p=0.1,
            max_timestep=200,
            continuous=True,
        ),
        rtg_scale=200,
        rtg_target=-120,
        warmup_steps=100,
        learning_rate=0.001,
        wt_decay=0.0001,
        clip_grad_norm_p=0.25,
        learn=dict(
            train_epoch=3000,
            batch_size=50,
        ),
        collect=dict(
            data_type="d4rl_trajectory",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=100,
            ),
        ),
    ),
    dataset=dict(
        env_type="mujoco",
        rtg_scale=200,
        context_len=10,
        data_dir_prefix="pendulum_sac_data_generation/episodes",
    ),
)
main_config = EasyDict(pendulum_dt_config)

pendulum_dt_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="dt",
    ),
)
create_config = EasyDict(pendulum_dt_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_dt

    serial_pipeline_dt((main_config, create_config), seed=0)
