"""QTRAN on a cooperative game: two agents cover two landmarks on a line of six cells.

The best mean return is 7.36, that of random moves 2.44.
"""

from easydict import EasyDict

n_agent, n_cell = 2, 6
line_cover_qtran_config = dict(
    exp_name="line_cover_qtran_seed0",
    env=dict(
        n_agent=n_agent,
        n_cell=n_cell,
        max_cycles=8,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=64,
        stop_value=7,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            agent_num=n_agent,
            obs_shape=3 * n_cell + 3 + n_agent,
            global_obs_shape=(n_agent + 1) * n_cell,
            action_shape=3,
            hidden_size_list=[64, 64],
            embedding_size=64,
        ),
        learn=dict(
            update_per_collect=20,
            batch_size=32,
            learning_rate=0.0005,
            double_q=True,
            target_update_theta=0.01,
            discount_factor=0.95,
            opt_weight=1,
            nopt_min_weight=1,
        ),
        collect=dict(
            n_sample=32,
            unroll_len=8,
            env_num=8,
        ),
        eval=dict(
            env_num=8,
            evaluator=dict(
                eval_freq=200,
            ),
        ),
        other=dict(
            eps=dict(
                type="exp",
                start=1,
                end=0.05,
                decay=5000,
            ),
            replay_buffer=dict(
                replay_buffer_size=5000,
            ),
        ),
    ),
)
main_config = EasyDict(line_cover_qtran_config)

line_cover_qtran_create_config = dict(
    env=dict(
        type="line_cover",
        import_names=["ding.envs.zoo.line_cover_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="qtran",
    ),
)
create_config = EasyDict(line_cover_qtran_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
