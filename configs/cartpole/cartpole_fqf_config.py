"""FQF on CartPole-v1, with the numbers of DI-engine's IQN config and larger learning rates than the defaults.

Result: the stop value on seeds 0, 1 and 2 after 14,440, 12,840 and 17,648 env steps.
"""

from easydict import EasyDict

cartpole_fqf_config = dict(
    exp_name="cartpole_fqf_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
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
            num_quantiles=32,
        ),
        nstep=3,
        discount_factor=0.97,
        learn=dict(
            update_per_collect=3,
            batch_size=64,
            target_update_freq=100,
            learning_rate_fraction=0.0001,
            learning_rate_quantile=0.001,
            ent_coef=0.0,
        ),
        collect=dict(
            n_sample=80,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=60,
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
main_config = EasyDict(cartpole_fqf_config)

cartpole_fqf_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="fqf",
    ),
)
create_config = EasyDict(cartpole_fqf_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
