"""Behaviour cloning on CartPole-v1, from data of a DQN, with the network and the numbers of DI-engine's config.

Result: the stop value on seeds 0, 1 and 2 after 920, 840 and 880 train iterations.

The data are 10,000 samples of the best policy of `cartpole_dqn_config.py`; run as a script, this file trains and
collects first. From the command line: `ding -m serial -c configs/cartpole/cartpole_dqn_config.py`, then
`ding -m collect_demo_data -c configs/cartpole/cartpole_dqn_config.py --load-path
cartpole_dqn_seed0/ckpt/ckpt_best.pth.tar --collect-count 10000 --data-path cartpole_bc_data/expert_data.pkl`, and then
`ding -m serial_bc -c FILE` with this file.
"""

from easydict import EasyDict

cartpole_bc_config = dict(
    exp_name="cartpole_bc_seed0",
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
            learning_rate=0.01,
            train_epoch=20,
        ),
        collect=dict(
            data_path="cartpole_bc_data/expert_data.pkl",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=40,
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_bc_config)

cartpole_bc_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="bc",
    ),
)
create_config = EasyDict(cartpole_bc_create_config)

if __name__ == "__main__":
    from pathlib import Path

    from ding.entry import collect_demo_data, serial_pipeline, serial_pipeline_bc

    expert, weights = str(Path(__file__).parent / "cartpole_dqn_config.py"), "cartpole_dqn_seed0/ckpt/ckpt_best.pth.tar"
    data_path = main_config.policy.collect.data_path
    if not Path(weights).is_file():
        serial_pipeline(expert, seed=0)
    if not Path(data_path).is_file():
        collect_demo_data(expert, 0, 10000, data_path, state_dict_path=weights)
    serial_pipeline_bc((main_config, create_config), seed=0)
