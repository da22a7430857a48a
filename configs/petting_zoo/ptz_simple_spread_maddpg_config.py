"""MADDPG on simple_spread of PettingZoo's MPE with continuous actions, three agents and landmarks (extra
``pettingzoo``).
"""

from easydict import EasyDict

n_agent = n_landmark = 3
# What an agent sees, and the global state.
obs_shape = 4 + 2 * n_landmark + 4 * (n_agent - 1)
global_obs_shape = 4 * n_agent + 2 * n_landmark + 2 * n_agent * (n_agent - 1)
ptz_simple_spread_maddpg_config = dict(
    exp_name="ptz_simple_spread_maddpg_seed0",
    env=dict(
        env_family="mpe",
        env_id="simple_spread_v3",
        n_agent=n_agent,
        n_landmark=n_landmark,
        max_cycles=25,
        continuous_actions=True,
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=0,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=1000,
        model=dict(
            agent_num=n_agent,
            agent_obs_shape=obs_shape,
            global_obs_shape=global_obs_shape,
            action_shape=5,
            action_space="regression",
            actor_head_hidden_size=64,
            critic_head_hidden_size=64,
        ),
        learn=dict(
            update_per_collect=4,
            batch_size=256,
            learning_rate_actor=0.001,
            learning_rate_critic=0.001,
            discount_factor=0.95,
            target_theta=0.01,
        ),
        collect=dict(
            n_sample=200,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=200,
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=100000,
            ),
        ),
    ),
)
main_config = EasyDict(ptz_simple_spread_maddpg_config)

ptz_simple_spread_maddpg_create_config = dict(
    env=dict(
        type="petting_zoo",
        import_names=["ding.envs.zoo.petting_zoo_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="maddpg",
    ),
)
create_config = EasyDict(ptz_simple_spread_maddpg_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
