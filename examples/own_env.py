"""Your own env in one file: a corridor to walk along, trained with DQN.

python examples/own_env.py
"""

import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete

from ding.entry import serial_pipeline
from ding.envs import BaseEnv, BaseEnvTimestep
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("corridor")
class CorridorEnv(BaseEnv):
    """Walk right from cell 0 to the last cell: reward 1 at the end, -0.01 per step, 50 steps at most."""

    def __init__(self, cfg: EasyDict) -> None:
        self._length = cfg.get("length", 8)
        self.observation_space = Box(0.0, 1.0, (self._length,), np.float32)
        self.action_space = Discrete(2)
        self.reward_space = Box(-1.0, 1.0, (1,), np.float32)

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Nothing is random here."""

    def reset(self) -> np.ndarray:
        self._cell, self._steps, self._return = 0, 0, 0.0
        return self._obs()

    def step(self, action: np.ndarray) -> BaseEnvTimestep:
        self._steps += 1
        self._cell = max(0, self._cell + (1 if int(np.asarray(action).item()) == 1 else -1))
        arrived = self._cell == self._length - 1
        reward = 1.0 if arrived else -0.01
        self._return += reward
        truncated = self._steps >= 50 and not arrived
        info = {}
        if arrived or truncated:
            info["eval_episode_return"] = self._return
        if truncated:
            # A time limit is no terminal state: the value behind it counts.
            info["TimeLimit.truncated"] = True
        return BaseEnvTimestep(self._obs(), np.array([reward], dtype=np.float32), arrived or truncated, info)

    def close(self) -> None:
        """Nothing to release."""

    def __repr__(self) -> str:
        return f"CorridorEnv({self._length})"

    def _obs(self) -> np.ndarray:
        obs = np.zeros(self._length, dtype=np.float32)
        obs[self._cell] = 1.0
        return obs


main_config = EasyDict(
    exp_name="corridor_dqn",
    env=dict(length=8, collector_env_num=4, evaluator_env_num=2, n_evaluator_episode=2, stop_value=0.9),
    policy=dict(
        model=dict(obs_shape=8, action_shape=2, encoder_hidden_size_list=[32, 32]),
        learn=dict(update_per_collect=4, batch_size=32, learning_rate=0.003),
        collect=dict(n_sample=16),
        eval=dict(evaluator=dict(eval_freq=50)),
        other=dict(eps=dict(start=0.9, end=0.1, decay=1000), replay_buffer=dict(replay_buffer_size=5000)),
    ),
)
create_config = EasyDict(
    env=dict(type="corridor"),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)

if __name__ == "__main__":
    serial_pipeline((main_config, create_config), seed=0, max_env_step=20_000)
