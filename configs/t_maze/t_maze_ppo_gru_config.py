"""PPO with a GRU on a T-maze, where a policy without memory has a mean return of at most 0."""

from easydict import EasyDict

t_maze_ppo_gru_config = dict(
    exp_name="t_maze_ppo_gru_seed0",
    env=dict(
        corridor_length=8,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=0.95,
    ),
    policy=dict(
        cuda=False,
        action_space="discrete",
        recurrent=True,
        learn_unroll_len=32,
        model=dict(
            obs_shape=2,
            action_shape=3,
            action_space="discrete",
            encoder_hidden_size_list=[64, 64],
            lstm_type="gru",
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=256,
            learning_rate=0.002,
            entropy_weight=0.02,
        ),
        collect=dict(n_sample=1024, env_num=8, discount_factor=0.98),
        eval=dict(env_num=8, evaluator=dict(eval_freq=64)),
    ),
)
main_config = EasyDict(t_maze_ppo_gru_config)

t_maze_ppo_gru_create_config = dict(
    env=dict(type="t_maze", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = EasyDict(t_maze_ppo_gru_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
