"""Small test configs: the three configs of a parallel CartPole run, as DI-engine's ``parallel_test_*_config``."""

from easydict import EasyDict

parallel_test_main_config = EasyDict(
    exp_name="parallel_test",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        collector_episode_num=2,
        evaluator_env_num=5,
        evaluator_episode_num=1,
        stop_value=9,
    ),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[32, 32]),
        nstep=3,
        discount_factor=0.97,
        learn=dict(batch_size=32, learning_rate=0.001, learner=dict(learner_num=1, send_policy_freq=1)),
        collect=dict(n_sample=16, collector=dict(collector_num=2, update_policy_second=3)),
        other=dict(
            eps=dict(type="exp", start=0.95, end=0.1, decay=100000),
            commander=dict(collector_task_space=2, learner_task_space=1, eval_interval=5),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)

parallel_test_create_config = EasyDict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn_command"),
    learner=dict(type="base", import_names=["ding.worker.learner.base_learner"]),
    collector=dict(type="zergling", import_names=["ding.worker.collector.zergling_parallel_collector"]),
    commander=dict(type="solo", import_names=["ding.worker.coordinator.solo_parallel_commander"]),
    comm_learner=dict(type="flask_fs", import_names=["ding.worker.learner.comm.flask_fs_learner"]),
    comm_collector=dict(type="flask_fs", import_names=["ding.worker.collector.comm.flask_fs_collector"]),
)

parallel_test_system_config = EasyDict(
    coordinator=dict(),
    path_data="auto",
    path_policy="auto",
    communication_mode="auto",
    learner_gpu_num=0,
)
