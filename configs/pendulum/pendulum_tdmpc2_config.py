"""TD-MPC2 with a small model on Pendulum-v1.

Result: not run to its stop value yet; see docs/results.md.
"""

from easydict import EasyDict

pendulum_tdmpc2_config = dict(
    exp_name="pendulum_tdmpc2_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=10,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=1000,
        horizon=3,
        plan=dict(
            iterations=3,
            num_samples=32,
            num_elites=8,
            num_policy_trajectories=8,
        ),
        model=dict(
            obs_shape=3,
            action_shape=1,
            latent_size=32,
            hidden_size=32,
            encoder_hidden_size=32,
            num_buckets=41,
            dropout=0.0,
        ),
        learn=dict(
            update_per_collect=5,
            batch_size=64,
            learning_rate=0.001,
            discount_factor=0.97,
            ignore_done=True,
        ),
        collect=dict(n_sample=10),
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
)
main_config = EasyDict(pendulum_tdmpc2_config)

pendulum_tdmpc2_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="tdmpc2"),
)
create_config = EasyDict(pendulum_tdmpc2_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
