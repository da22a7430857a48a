"""PPO with rewards for new observations (RND) on MiniGrid-Empty-8x8-v0 (extra `minigrid`).

Walk to the corner; 0.96 at best.

Result: the stop value on seeds 0, 1 and 2 after 19,200, 12,800 and 25,600 env steps.
"""

from easydict import EasyDict

minigrid_ppo_rnd_config = dict(
    exp_name="minigrid_ppo_rnd_seed0",
    env=dict(
        env_id="MiniGrid-Empty-8x8-v0",
        max_step=100,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=0.95,
    ),
    reward_model=dict(
        intrinsic_reward_type="add",
        # A tenth of the inverse of the steps of an episode, as the goal pays 1 at most.
        intrinsic_reward_weight=0.001,
        learning_rate=0.0003,
        obs_shape=2835,
        batch_size=320,
        update_per_collect=50,
        clear_buffer_per_iters=10,
    ),
    policy=dict(
        cuda=False,
        recompute_adv=True,
        model=dict(
            obs_shape=2835,
            action_shape=7,
            encoder_hidden_size_list=[256, 128, 64, 64],
        ),
        learn=dict(
            epoch_per_collect=10,
            batch_size=320,
            learning_rate=0.0003,
            value_weight=0.5,
            entropy_weight=0.001,
            clip_ratio=0.2,
            adv_norm=True,
            value_norm=True,
        ),
        collect=dict(
            n_sample=3200,
            discount_factor=0.99,
            gae_lambda=0.95,
        ),
        eval=dict(
            evaluator=dict(
                # In train iterations: every 2 passes, 6,400 env steps.
                eval_freq=200,
            ),
        ),
    ),
)
main_config = EasyDict(minigrid_ppo_rnd_config)

minigrid_ppo_rnd_create_config = dict(
    env=dict(
        type="minigrid",
        import_names=["ding.envs.zoo.minigrid_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="ppo",
    ),
    reward_model=dict(
        type="rnd",
    ),
)
create_config = EasyDict(minigrid_ppo_rnd_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_reward_model_onpolicy

    serial_pipeline_reward_model_onpolicy((main_config, create_config), seed=0)
