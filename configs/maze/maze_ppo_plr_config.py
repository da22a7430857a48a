"""PPO with prioritised level replay on small mazes: 100 of them to learn from, new ones to be judged by.

Result: the stop value on seeds 0, 1 and 2 after 133,120, 133,120 and 112,640 env steps.
"""

from easydict import EasyDict

maze_ppo_plr_config = dict(
    exp_name="maze_ppo_plr_seed0",
    env=dict(
        size=5,
        wall_type="tree",
        flat_obs=True,
        max_step=30,
        collector_env_num=16,
        evaluator_env_num=10,
        n_evaluator_episode=50,
        stop_value=0.95,
    ),
    policy=dict(
        cuda=False,
        action_space="discrete",
        model=dict(
            obs_shape=75,
            action_shape=4,
            action_space="discrete",
            encoder_hidden_size_list=[128, 128],
            critic_head_hidden_size=128,
            actor_head_hidden_size=128,
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=256,
            learning_rate=0.001,
            value_weight=0.5,
            entropy_weight=0.01,
            clip_ratio=0.2,
        ),
        collect=dict(
            n_sample=1024,
            unroll_len=1,
            discount_factor=0.95,
            gae_lambda=0.9,
        ),
        eval=dict(evaluator=dict(eval_freq=160)),
    ),
    level_replay=dict(
        num_levels=100,
        # Levels in which the advantages are large come back most often.
        strategy="value_l1",
        score_transform="rank",
        temperature=0.5,
        staleness_coef=0.1,
    ),
)
main_config = EasyDict(maze_ppo_plr_config)

maze_ppo_plr_create_config = dict(
    env=dict(type="maze", import_names=["ding.envs.zoo.maze_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = EasyDict(maze_ppo_plr_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_plr

    serial_pipeline_plr((main_config, create_config), seed=0)
