"""DQN on CartPole-v1 in the parallel mode: one learner, two collectors, each in a process of its own."""

from easydict import EasyDict

cartpole_dqn_config = dict(
    exp_name="cartpole_dqn_parallel_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        # Episodes per env in one collector task; after a task the collector gets a new epsilon.
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
            encoder_hidden_size_list=[128, 128, 64],
            dueling=True,
        ),
        nstep=3,
        discount_factor=0.97,
        learn=dict(
            batch_size=32,
            learning_rate=0.001,
            # send_policy_freq: in train iterations.
            learner=dict(learner_num=1, send_policy_freq=20),
        ),
        collect=dict(
            n_sample=16,
            # update_policy_second: a new policy is loaded at once; this bounds the wait where nobody announces it.
            collector=dict(collector_num=2, update_policy_second=3),
        ),
        other=dict(
            # Epsilon over env steps.
            eps=dict(type="exp", start=0.95, end=0.1, decay=10000),
            # eval_interval: in seconds.
            commander=dict(collector_task_space=2, learner_task_space=1, eval_interval=5),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = EasyDict(cartpole_dqn_config)

cartpole_dqn_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn_command"),
    learner=dict(type="base", import_names=["ding.worker.learner.base_learner"]),
    collector=dict(type="zergling", import_names=["ding.worker.collector.zergling_parallel_collector"]),
    commander=dict(type="solo", import_names=["ding.worker.coordinator.solo_parallel_commander"]),
    comm_learner=dict(type="flask_fs", import_names=["ding.worker.learner.comm.flask_fs_learner"]),
    comm_collector=dict(type="flask_fs", import_names=["ding.worker.collector.comm.flask_fs_collector"]),
)
create_config = EasyDict(cartpole_dqn_create_config)

cartpole_dqn_system_config = dict(
    coordinator=dict(host="127.0.0.1", port="auto"),
    # auto: in memory where there is room, else in the experiment folder; removed when the run ends.
    path_data="auto",
    path_policy="auto",
    communication_mode="auto",
    learner_gpu_num=0,
)
system_config = EasyDict(cartpole_dqn_system_config)

if __name__ == "__main__":
    from ding.entry import parallel_pipeline

    parallel_pipeline((main_config, create_config, system_config), seed=0)
