"""ATOC on simple_spread of PettingZoo's MPE (extra ``pettingzoo``): three agents with continuous actions."""

from easydict import EasyDict

n_agent = n_landmark = 3
ptz_simple_spread_atoc_config = dict(
    exp_name="ptz_simple_spread_atoc_seed0",
    env=dict(
        env_family="mpe",
        env_id="simple_spread_v3",
        n_agent=n_agent,
        n_landmark=n_landmark,
        max_cycles=25,
        agent_obs_only=True,
        continuous_actions=True,
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=0,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4 + 2 * n_landmark + 4 * (n_agent - 1),
            action_shape=5,
            n_agent=n_agent,
            thought_size=16,
            agent_per_group=2,
        ),
        learn=dict(
            update_per_collect=5,
            batch_size=128,
            learning_rate_actor=0.001,
            learning_rate_critic=0.001,
        ),
        collect=dict(
            n_sample=400,
            noise_sigma=0.4,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=500,
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=100000,
            ),
        ),
    ),
)
main_config = EasyDict(ptz_simple_spread_atoc_config)

ptz_simple_spread_atoc_create_config = dict(
    env=dict(
        type="petting_zoo",
        import_names=["ding.envs.zoo.petting_zoo_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="atoc",
    ),
)
create_config = EasyDict(ptz_simple_spread_atoc_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
