"""PPO on MountainCar-v0: drive out of the valley; -1 per step, 200 steps at most, and no reward on the way.

Result: the stop value on seeds 1 and 2 after 419,840 and 358,400 env steps, and not within 600,000 on seed 0
(see docs/results.md); `mountaincar_dqn_config.py` is the better choice.
"""

from easydict import EasyDict

mountaincar_ppo_config = dict(
    exp_name="mountaincar_ppo_seed0",
    env=dict(
        env_id="MountainCar-v0",
        env_wrapper=[{"type": "action_repeat", "kwargs": {"action_repeat": 4}}, {"type": "eval_episode_return"}],
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=-120,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=2,
            action_shape=3,
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=256,
            learning_rate=0.001,
            entropy_weight=0.01,
        ),
        collect=dict(
            n_sample=2048,
            discount_factor=0.99,
            gae_lambda=0.98,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=160,
            ),
        ),
    ),
)
main_config = EasyDict(mountaincar_ppo_config)

mountaincar_ppo_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="ppo",
    ),
)
create_config = EasyDict(mountaincar_ppo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
