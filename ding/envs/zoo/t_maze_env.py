"""T-maze: an initial cue determines the turn at the end (Bakker 2001, "RL with long short-term memory")."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv
from ding.utils import ENV_REGISTRY

_FORWARD = 2


@ENV_REGISTRY.register("t_maze")
class TMazeEnv(BaseEnv):
    """Remember a cue along a corridor, and turn to its side at the junction.

    The observation is float32 ``(2,)``: the cue, -1 (left) or 1 (right) in the first cell and 0 elsewhere, and 1 at the
    junction, else 0. Actions are 0 (left), 1 (right) and 2 (forward). At the junction a turn ends the episode, with
    reward 1 for the side of the cue and -1 for the other. A turn in the corridor and a step forward at the junction
    leave the agent in place, with reward -0.1; a step forward in the corridor has reward 0. The episode is truncated
    after ``4 * (corridor_length + 1)`` steps.

    The observation at the junction is the same for both cues. A policy that sees only the last observation turns to the
    correct side in half of the episodes, so its mean return is at most 0.

    Args:
        cfg: ``corridor_length``, number of steps from the cue to the junction, default 8.

    Raises:
        ValueError: ``corridor_length`` is below 1.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        self._length = int((cfg or {}).get("corridor_length", 8))
        if self._length < 1:
            raise ValueError(f"env.corridor_length must be at least 1, found {self._length}")
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.reward_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._rng = np.random.default_rng()
        self._cue = self._place = self._num_steps = 0
        self._return = 0.0

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed the sequence of cues; ``dynamic_seed`` is ignored, because a single cue would measure nothing."""
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Sample a new cue and return the observation of the first cell."""
        self._cue = 2 * int(self._rng.integers(2)) - 1
        self._place = self._num_steps = 0
        self._return = 0.0
        return self._obs()

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Turn or move forward: ``action`` is an int or an int array with one element.

        Raises:
            ValueError: The action does not exist.
        """
        move = int(np.asarray(action).reshape(()))
        if not 0 <= move <= _FORWARD:
            raise ValueError(f"the action is 0, 1 or 2, found {action!r}")
        self._num_steps += 1
        at_junction, forward = self._place == self._length, move == _FORWARD
        done = at_junction and not forward
        reward = 0.0 if forward and not at_junction else -0.1
        if done:
            reward = 1.0 if 2 * move - 1 == self._cue else -1.0
        elif forward and not at_junction:
            self._place += 1
        truncated = not done and self._num_steps >= 4 * (self._length + 1)
        self._return += reward
        info: dict[str, Any] = {"TimeLimit.truncated": True} if truncated else {}
        if done or truncated:
            info["eval_episode_return"] = self._return
        return BaseEnvTimestep(self._obs(), np.array([reward], dtype=np.float32), done or truncated, info)

    def _obs(self) -> np.ndarray:
        return np.array([self._cue * (self._place == 0), self._place == self._length], dtype=np.float32)

    def random_action(self) -> np.ndarray:
        """Return a random action, int64 ``(1,)``."""
        return self._rng.integers(3, size=1)

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        return f"TMazeEnv(corridor_length={self._length})"
