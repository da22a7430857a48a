"""DQN on FrozenLake, whose observations are numbers of cells.

    python examples/dqn_frozen_lake.py

The env module `frozen_lake` makes them one-hot vectors. The ice of `is_slippery=False` does not slip: the best return
is 1.
"""

from typing import Any

from easydict import EasyDict

from ding.entry import serial_pipeline

main_config = EasyDict(
    exp_name="frozen_lake_dqn",
    env=dict(
        env_id="FrozenLake-v1",
        desc=None,
        map_name="4x4",
        is_slippery=False,
        save_replay_gif=False,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=1,
    ),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=16, action_shape=4, encoder_hidden_size_list=[64, 64], dueling=True),
        nstep=3,
        discount_factor=0.97,
        learn=dict(update_per_collect=5, batch_size=64, learning_rate=0.001),
        collect=dict(n_sample=64),
        eval=dict(evaluator=dict(eval_freq=50)),
        other=dict(eps=dict(type="exp", start=0.95, end=0.1, decay=5000), replay_buffer=dict(replay_buffer_size=20000)),
    ),
)
create_config = EasyDict(
    env=dict(type="frozen_lake", import_names=["ding.envs.zoo.frozen_lake_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)


def main(seed: int = 0, max_env_step: int = 20_000) -> Any:
    """Train and return the policy."""
    return serial_pipeline((main_config, create_config), seed=seed, max_env_step=max_env_step)


if __name__ == "__main__":
    main()
