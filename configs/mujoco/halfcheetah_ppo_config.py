"""PPO on HalfCheetah-v5 (extra `mujoco`).

DI-engine's numbers for HalfCheetah-v3 but for the networks and the size of the minibatches. Result: a return of 756 on
seed 0 after 201,600 env steps, and of 815 on seed 1 after 160,000; docs/results.md has other numbers.
"""

from easydict import EasyDict

halfcheetah_ppo_config = dict(
    exp_name="halfcheetah_ppo_seed0",
    env=dict(
        env_id="HalfCheetah-v5",
        act_scale=True,
        collector_env_num=8,
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
            entropy_weight=0.001,
            clip_ratio=0.2,
            adv_norm=True,
            value_norm=True,
            # Its episodes end by their time limit alone.
            ignore_done=True,
            grad_clip_type="clip_norm",
            grad_clip_value=0.5,
        ),
        collect=dict(
            n_sample=3200,
            discount_factor=0.99,
            gae_lambda=0.95,
        ),
        # In train iterations: every 10 passes, 32,000 env steps.
        eval=dict(evaluator=dict(eval_freq=5000)),
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
