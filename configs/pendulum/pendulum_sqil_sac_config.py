"""SQIL with SAC on Pendulum-v1, with the numbers of DI-engine's config of the same name but for the discount.

Result: the stop value on seeds 0, 1 and 2 after 12,060, 14,060 and 15,060 env steps of its own.

The expert is the best policy of `pendulum_sac_config.py`; run as a script, this file trains it first. From the command
line: `ding -m serial -c configs/pendulum/pendulum_sac_config.py`, and then
`ding -m serial_sqil -c FILE --expert-config configs/pendulum/pendulum_sac_config.py` with this file.
"""

from easydict import EasyDict

pendulum_sqil_sac_config = dict(
    exp_name="pendulum_sqil_sac_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=10,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=1000,
        model=dict(
            obs_shape=3,
            action_shape=1,
            action_space="reparameterization",
            twin_critic=True,
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=1,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.0003,
            ignore_done=True,
            target_theta=0.005,
            discount_factor=0.99,
            auto_alpha=True,
        ),
        collect=dict(n_sample=10, model_path="pendulum_sac_seed0/ckpt/ckpt_best.pth.tar"),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
)
main_config = EasyDict(pendulum_sqil_sac_config)

pendulum_sqil_sac_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="sqil_sac"),
)
create_config = EasyDict(pendulum_sqil_sac_create_config)

if __name__ == "__main__":
    from pathlib import Path

    from ding.entry import serial_pipeline, serial_pipeline_sqil

    expert = str(Path(__file__).parent / "pendulum_sac_config.py")
    if not Path(main_config.policy.collect.model_path).is_file():
        serial_pipeline(expert, seed=0)
    serial_pipeline_sqil((main_config, create_config), expert, seed=0)
