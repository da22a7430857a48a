"""NGU on CartPole with 200 steps per episode, with the numbers of DI-engine's config of the same name.

Result: the stop value on seeds 0 and 1 after 51,248 and 92,680 env steps; on seed 2 the return was 120 after 201,272.
"""

from easydict import EasyDict

cartpole_ngu_config = dict(
    exp_name="cartpole_ngu_seed0",
    env=dict(
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        # The policy reads the action and the reward of the step before.
        obs_plus_prev_action_reward=True,
        stop_value=195,
    ),
    rnd_reward_model=dict(
        type="rnd-ngu",
        learning_rate=0.0005,
        obs_shape=4,
        batch_size=320,
        update_per_collect=10,
        clear_buffer_per_iters=10,
        hidden_size_list=[128, 128, 64],
    ),
    episodic_reward_model=dict(
        type="episodic",
        learning_rate=0.0005,
        obs_shape=4,
        action_shape=2,
        batch_size=320,
        update_per_collect=10,
        clear_buffer_per_iters=10,
        hidden_size_list=[128, 128, 64],
    ),
    policy=dict(
        cuda=False,
        nstep=5,
        burnin_step=2,
        learn_unroll_len=40,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[128, 128, 64],
            collector_env_num=8,
        ),
        learn=dict(
            update_per_collect=8,
            batch_size=64,
            learning_rate=0.0005,
            target_update_theta=0.001,
        ),
        collect=dict(
            n_sample=32,
            env_num=8,
        ),
        eval=dict(
            env_num=5,
            evaluator=dict(
                eval_freq=40,
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=20000,
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_ngu_config)

cartpole_ngu_create_config = dict(
    env=dict(
        type="cartpole",
        import_names=["ding.envs.zoo.cartpole_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="ngu",
    ),
    rnd_reward_model=dict(
        type="rnd-ngu",
    ),
    episodic_reward_model=dict(
        type="episodic",
    ),
)
create_config = EasyDict(cartpole_ngu_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_ngu

    serial_pipeline_ngu((main_config, create_config), seed=0)
