"""Bit flipping: one goal among 2^n states with a sparse reward (HER, Andrychowicz et al. 2017, arXiv:1707.01495)."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("bitflip")
class BitFlipEnv(BaseEnv):
    """Flip one of n bits per step until the state equals the goal.

    The observation is float32 ``(2n,)``: the state followed by the goal, which are random and initially different. The
    reward is 1 at the goal, which ends the episode, else 0. The episode is truncated after n steps.

    Args:
        cfg: ``n_bits`` (n, default 5).

    Raises:
        ValueError: ``n_bits`` is below 1.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        self._n_bits = int((cfg or {}).get("n_bits", 5))
        if self._n_bits < 1:
            raise ValueError(f"env.n_bits must be at least 1, found {self._n_bits}")
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2 * self._n_bits,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(self._n_bits)
        self.reward_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        self._rng = np.random.default_rng()
        self._state = self._goal = np.zeros(self._n_bits, dtype=np.float32)
        self._num_steps = 0

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed the sequence of tasks; ``dynamic_seed`` is ignored, because a single task would measure nothing."""
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Sample a new state and goal, and return the observation."""
        self._state = self._rng.integers(2, size=self._n_bits).astype(np.float32)
        flips = np.unpackbits(np.array([self._rng.integers(1, 2**self._n_bits)], dtype=">u8").view(np.uint8))
        self._goal = np.abs(self._state - flips[-self._n_bits :].astype(np.float32))
        self._num_steps = 0
        return self._obs()

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Flip the bit ``action``, an int or an int array with one element.

        Raises:
            ValueError: The bit does not exist.
        """
        bit = int(np.asarray(action).reshape(()))
        if not 0 <= bit < self._n_bits:
            raise ValueError(f"the action is one of {self._n_bits} bits, found {action!r}")
        self._state[bit] = 1 - self._state[bit]
        self._num_steps += 1
        success = bool((self._state == self._goal).all())
        truncated = not success and self._num_steps >= self._n_bits
        info: dict[str, Any] = {"TimeLimit.truncated": True} if truncated else {}
        if success or truncated:
            info["eval_episode_return"] = float(success)
        return BaseEnvTimestep(self._obs(), np.array([success], dtype=np.float32), success or truncated, info)

    def _obs(self) -> np.ndarray:
        return np.concatenate([self._state, self._goal])

    def random_action(self) -> np.ndarray:
        """Return a random bit, int64 ``(1,)``."""
        return self._rng.integers(self._n_bits, size=1)

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        return f"BitFlipEnv({self._n_bits} bits)"
