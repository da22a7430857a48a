"""SAC with the networks of SimBa, an update per env step, on Pendulum-v1.

Result: the stop value on seeds 0, 1 and 2 after 3,000 env steps each.
"""

from easydict import EasyDict

pendulum_sac_simba_config = dict(
    exp_name="pendulum_sac_simba_seed0",
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
            type="simba_qac",
            obs_shape=3,
            action_shape=1,
            action_space="reparameterization",
            twin_critic=True,
            actor_head_hidden_size=64,
            actor_head_layer_num=1,
            critic_head_hidden_size=128,
            critic_head_layer_num=2,
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.0003,
            ignore_done=True,
            optim_type="adamw",
            weight_decay=0.01,
            auto_alpha=True,
        ),
        collect=dict(n_sample=10),
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
)
main_config = EasyDict(pendulum_sac_simba_config)

pendulum_sac_simba_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="sac"),
)
create_config = EasyDict(pendulum_sac_simba_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
