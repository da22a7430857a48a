"""RLPD on Pendulum-v1: online from the beginning, with half of each batch from the data.

Its data: `python configs/pendulum/pendulum_sac_data_generation_config.py`.

Result: returns of -178, -179 and -131 on seeds 0 to 2 after 3,000 env steps each.
"""

from easydict import EasyDict

pendulum_rlpd_config = dict(
    exp_name="pendulum_rlpd_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=4,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=500,
        model=dict(
            obs_shape=3,
            action_shape=1,
            ensemble_num=4,
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            offline_share=0.5,
            update_per_collect=4,
            actor_update_freq=4,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.0003,
            ignore_done=True,
            alpha=0.2,
        ),
        collect=dict(
            n_sample=4,
            data_type="columns",
            data_path="pendulum_sac_data_generation/mixed",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=500,
            ),
        ),
    ),
)
main_config = EasyDict(pendulum_rlpd_config)

pendulum_rlpd_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="rlpd",
    ),
)
create_config = EasyDict(pendulum_rlpd_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_finetune

    serial_pipeline_finetune((main_config, create_config), seed=0)
