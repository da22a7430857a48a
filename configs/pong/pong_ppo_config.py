"""PPO on Pong (extra `atari`, the real Arcade Learning Environment): -21 at the start, 21 at best.

Result: not run to its end; the first updates are (see docs/results.md).
"""

from easydict import EasyDict

pong_ppo_config = dict(
    exp_name="pong_ppo_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        frame_stack=4,
        collector_env_num=8,
        evaluator_env_num=4,
        n_evaluator_episode=4,
        stop_value=18,
    ),
    policy=dict(
        cuda=False,
        recompute_adv=True,
        model=dict(
            obs_shape=[4, 84, 84],
            action_shape=6,
            encoder_hidden_size_list=[64, 64, 128],
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
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
        collect=dict(n_sample=3200, discount_factor=0.99, gae_lambda=0.95),
        # In train iterations: every 10 passes, 32,000 env steps.
        eval=dict(evaluator=dict(eval_freq=1000)),
    ),
)
main_config = EasyDict(pong_ppo_config)

pong_ppo_create_config = dict(
    env=dict(type="atari", import_names=["ding.envs.zoo.atari_env"]),
    env_manager=dict(type="gym_vector"),
    policy=dict(type="ppo"),
)
create_config = EasyDict(pong_ppo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
