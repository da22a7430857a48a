"""Self-play with DQN on the coin game of two players, in the parallel mode with a league.

Collectors let the learning player play itself and its snapshots; it is evaluated against the scripted opponents of the
env, the weaker one first.
"""

from easydict import EasyDict

duel_dqn_config = dict(
    exp_name="duel_dqn_parallel_seed0",
    env=dict(
        size=5,
        steps=30,
        collector_env_num=8,
        # Episodes per env in one collector task; each task has one opponent.
        collector_episode_num=2,
        evaluator_env_num=8,
        evaluator_episode_num=5,
        # Mean lead in coins over the opponent of the evaluation.
        stop_value=3,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=8,
            action_shape=5,
            encoder_hidden_size_list=[128, 128],
        ),
        nstep=3,
        discount_factor=0.9,
        learn=dict(
            batch_size=64,
            learning_rate=0.001,
            # send_policy_freq: in train iterations.
            learner=dict(learner_num=1, send_policy_freq=20),
        ),
        collect=dict(
            n_sample=16,
            collector=dict(collector_num=2, update_policy_second=3),
        ),
        other=dict(
            # Epsilon over env steps.
            eps=dict(type="exp", start=0.95, end=0.1, decay=10000),
            commander=dict(
                collector_task_space=2,
                learner_task_space=1,
                # In seconds.
                eval_interval=2,
                league=dict(
                    naive_sp_player=dict(
                        # In train iterations; a snapshot is taken after one or two of them.
                        one_phase_step=200,
                        branch_probs=dict(pfsp=0.5, sp=0.5),
                        eval_opponent_difficulty=["RANDOM", "RULE_BASED"],
                    ),
                ),
            ),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = EasyDict(duel_dqn_config)

duel_dqn_create_config = dict(
    env=dict(type="duel", import_names=["ding.envs.duel_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn_command"),
    learner=dict(type="base", import_names=["ding.worker.learner.base_learner"]),
    collector=dict(type="marine", import_names=["ding.worker.collector.marine_parallel_collector"]),
    commander=dict(type="one_vs_one", import_names=["ding.worker.coordinator.one_vs_one_parallel_commander"]),
    comm_learner=dict(type="flask_fs", import_names=["ding.worker.learner.comm.flask_fs_learner"]),
    comm_collector=dict(type="flask_fs", import_names=["ding.worker.collector.comm.flask_fs_collector"]),
)
create_config = EasyDict(duel_dqn_create_config)

duel_dqn_system_config = dict(
    coordinator=dict(host="127.0.0.1", port="auto"),
    path_data="auto",
    path_policy="auto",
    communication_mode="auto",
    learner_gpu_num=0,
)
system_config = EasyDict(duel_dqn_system_config)

if __name__ == "__main__":
    from ding.entry import parallel_pipeline

    parallel_pipeline((main_config, create_config, system_config), seed=0)
