"""DQfD on CartPole-v1, from demonstrations of a DQN.

Result: the stop value on seeds 0, 1 and 2 after 1,496, 1,056 and 1,184 env steps of its own.

The expert is the best policy of `cartpole_dqn_config.py`; run as a script, this file trains it first. From the command
line: `ding -m serial -c configs/cartpole/cartpole_dqn_config.py`, and then
`ding -m serial_dqfd -c FILE --expert-config FILE` with this file as both.
"""

from easydict import EasyDict

cartpole_dqfd_config = dict(
    exp_name="cartpole_dqfd_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        priority=True,
        priority_IS_weight=True,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[128, 128, 64],
            dueling=True,
        ),
        nstep=3,
        discount_factor=0.97,
        learn=dict(
            batch_size=64,
            learning_rate=0.001,
            lambda1=1.0,
            lambda2=1.0,
            lambda3=1e-5,
            margin_function=0.8,
            per_train_iter_k=10,
            expert_replay_buffer_size=10000,
            update_per_collect=5,
        ),
        collect=dict(
            n_sample=8,
            model_path="cartpole_dqn_seed0/ckpt/ckpt_best.pth.tar",
            pho=0.25,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=40,
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
main_config = EasyDict(cartpole_dqfd_config)

cartpole_dqfd_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="dqfd",
    ),
)
create_config = EasyDict(cartpole_dqfd_create_config)

if __name__ == "__main__":
    from pathlib import Path

    from ding.entry import serial_pipeline, serial_pipeline_dqfd

    if not Path(main_config.policy.collect.model_path).is_file():
        serial_pipeline(str(Path(__file__).parent / "cartpole_dqn_config.py"), seed=0)
    configs = (main_config, create_config)
    serial_pipeline_dqfd(configs, configs, seed=0)
