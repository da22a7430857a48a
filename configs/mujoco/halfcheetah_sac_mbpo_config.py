"""SAC with MBPO's world model on HalfCheetah, with the numbers of DI-engine's config of the same name.

Result: not run to its end.
"""

from easydict import EasyDict

halfcheetah_sac_mbpo_config = dict(
    exp_name="halfcheetah_sac_mbpo_seed0",
    env=dict(
        env_id="HalfCheetah-v5",
        norm_obs=dict(use_norm=False),
        norm_reward=dict(use_norm=False),
        act_scale=True,
        collector_env_num=1,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=100000,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=10000,
        model=dict(
            obs_shape=17,
            action_shape=6,
            action_space="reparameterization",
            twin_critic=True,
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=40,
            batch_size=256,
            learning_rate_q=3e-4,
            learning_rate_policy=3e-4,
            learning_rate_alpha=3e-4,
            ignore_done=True,
            target_theta=0.005,
            discount_factor=0.99,
            alpha=0.2,
            auto_alpha=False,
        ),
        collect=dict(n_sample=1),
        # Counted in env steps.
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(replay_buffer=dict(type="naive", replay_buffer_size=1000000)),
    ),
    world_model=dict(
        train_freq=250,
        eval_freq=250,
        cuda="auto",
        rollout_length_scheduler=dict(
            type="linear",
            rollout_start_step=20000,
            rollout_end_step=150000,
            rollout_length_min=1,
            rollout_length_max=1,
        ),
        model=dict(
            ensemble_size=7,
            elite_size=5,
            state_size=17,
            action_size=6,
            reward_size=1,
            hidden_size=400,
            use_decay=True,
            batch_size=256,
            holdout_ratio=0.1,
            max_epochs_since_update=5,
            deterministic_rollout=True,
        ),
        other=dict(
            real_ratio=0.05,
            rollout_retain=4,
            rollout_batch_size=100000,
            imagination_buffer=dict(type="elastic", replay_buffer_size=6000000),
        ),
    ),
)
main_config = EasyDict(halfcheetah_sac_mbpo_config)

halfcheetah_sac_mbpo_create_config = dict(
    env=dict(type="mbmujoco", import_names=["ding.envs"]),
    env_manager=dict(type="subprocess"),
    policy=dict(type="sac"),
    replay_buffer=dict(type="naive"),
    imagination_buffer=dict(type="elastic"),
    world_model=dict(type="mbpo"),
)
create_config = EasyDict(halfcheetah_sac_mbpo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_dyna

    serial_pipeline_dyna((main_config, create_config), seed=0, max_env_step=100000)
