"""QMIX on simple_spread of PettingZoo's MPE (extra ``pettingzoo``): three agents, three landmarks."""

from easydict import EasyDict

n_agent = n_landmark = 3
# What an agent sees, and the global state.
obs_shape = 4 + 2 * n_landmark + 4 * (n_agent - 1)
global_obs_shape = 4 * n_agent + 2 * n_landmark + 2 * n_agent * (n_agent - 1)
ptz_simple_spread_qmix_config = dict(
    exp_name="ptz_simple_spread_qmix_seed0",
    env=dict(
        env_family="mpe",
        env_id="simple_spread_v3",
        n_agent=n_agent,
        n_landmark=n_landmark,
        max_cycles=25,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=16,
        stop_value=0,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            agent_num=n_agent,
            obs_shape=obs_shape,
            global_obs_shape=global_obs_shape,
            action_shape=5,
            hidden_size_list=[64, 64],
        ),
        learn=dict(
            update_per_collect=20,
            batch_size=32,
            learning_rate=0.0005,
            double_q=True,
            target_update_theta=0.01,
            discount_factor=0.99,
        ),
        collect=dict(
            n_sample=32,
            unroll_len=25,
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
                decay=100000,
            ),
            replay_buffer=dict(
                replay_buffer_size=5000,
            ),
        ),
    ),
)
main_config = EasyDict(ptz_simple_spread_qmix_config)

ptz_simple_spread_qmix_create_config = dict(
    env=dict(
        type="petting_zoo",
        import_names=["ding.envs.zoo.petting_zoo_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="qmix",
    ),
)
create_config = EasyDict(ptz_simple_spread_qmix_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
