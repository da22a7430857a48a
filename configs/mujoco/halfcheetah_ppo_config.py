"""PPO on HalfCheetah-v5 (extra `mujoco`), with normalised observations and rewards.

Discount, lambda and the short collections follow what is known to learn HalfCheetah with PPO (a discount of 0.98);
DI-engine's numbers without the normalisation are at a third of its return. docs/results.md has the curve of each.
"""

from easydict import EasyDict

halfcheetah_ppo_config = dict(
    exp_name="halfcheetah_ppo_seed0",
    env=dict(
        env_id="HalfCheetah-v5",
        act_scale=True,
        env_wrapper=[
            # Statistics of the run, which checkpoints hold. Evaluations return the rewards of the env.
            dict(type="obs_norm"),
            dict(type="reward_norm", kwargs=dict(reward_discount=0.98)),
            dict(type="eval_episode_return"),
        ],
        collector_env_num=4,
        evaluator_env_num=10,
        n_evaluator_episode=10,
        stop_value=3000,
    ),
    policy=dict(
        cuda=False,
        action_space="continuous",
        recompute_adv=True,
        model=dict(
            obs_shape=17,
            action_shape=6,
            action_space="continuous",
            # Two hidden layers of 64 units for each of actor and critic.
            activation="tanh",
            share_encoder=False,
            encoder_hidden_size_list=[64, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
        ),
        learn=dict(
            epoch_per_collect=10,
            batch_size=64,
            learning_rate=0.0003,
            value_weight=0.5,
            entropy_weight=0.0,
            clip_ratio=0.2,
            adv_norm=True,
            # Rewards are normalised already.
            value_norm=False,
            # Its episodes end by their time limit alone.
            ignore_done=True,
            grad_clip_type="clip_norm",
            grad_clip_value=0.5,
        ),
        collect=dict(
            n_sample=2048,
            discount_factor=0.98,
            gae_lambda=0.92,
        ),
        # In train iterations: every 10 passes, 20,480 env steps.
        eval=dict(evaluator=dict(eval_freq=3200)),
    ),
)
main_config = EasyDict(halfcheetah_ppo_config)

halfcheetah_ppo_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = EasyDict(halfcheetah_ppo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
