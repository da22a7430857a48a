"""Mazes: another one from every seed, with one reward at its goal."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.env.base_env import BaseEnv
from ding.utils import ENV_REGISTRY

# Down, right, up, left.
_MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))


@ENV_REGISTRY.register("maze")
class Maze(BaseEnv):
    """Walk from a random room of a maze to another one, its goal, on the only way there is.

    The observation is int64 ``(size, size, 3)`` with planes of walls, goal and agent, or float32 ``(3 * size * size,)``
    with ``flat_obs``. The four actions are down, right, up and left; walls stop. The reward is 1 at the goal, which
    ends the episode, else 0. After ``max_step`` steps the episode is truncated.

    With ``dynamic_seed=False`` every episode is in the maze of the seed, with it each in another one.

    Args:
        cfg: ``size`` (cells along an axis with the walls around, at least 5, 16 by default), ``flat_obs`` (False by
            default) and ``max_step`` (100 by default).

    Raises:
        ValueError: ``size`` is below 5, where there is only one room, or ``max_step`` is below 1.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        cfg = cfg or {}
        self._size, self._max_step = int(cfg.get("size", 16)), int(cfg.get("max_step", 100))
        if self._size < 5 or self._max_step < 1:
            raise ValueError(f"env.size must be at least 5 and env.max_step 1, found {self._size}, {self._max_step}")
        self._flat = bool(cfg.get("flat_obs", False))
        shape, dtype = ((3 * self._size**2,), np.float32) if self._flat else ((self._size, self._size, 3), np.int64)
        self.observation_space = gymnasium.spaces.Box(0, 1, shape, dtype)
        self.action_space = gymnasium.spaces.Discrete(len(_MOVES))
        self.reward_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        self._seed: int | None = None
        self._dynamic_seed = True
        self._rng = np.random.default_rng()
        self._walls = np.ones((self._size, self._size), dtype=np.int64)
        self._cell = self._goal = (1, 1)
        self._num_steps = 0

    @property
    def size(self) -> int:
        """Cells along an axis, with the walls around."""
        return self._size

    @property
    def n_action(self) -> int:
        """Number of actions, 4."""
        return len(_MOVES)

    @property
    def target_location(self) -> tuple[int, int]:
        """``(row, column)`` of the goal."""
        return self._goal

    @property
    def nav_map(self) -> list[list[str]]:
        """``[size][size]``: ``'x'`` for a wall, ``' '`` for a free cell."""
        return [["x" if wall else " " for wall in row] for row in self._walls.tolist()]

    def get_maze_map(self) -> np.ndarray:
        """Walls and goal, int64 ``[size, size, 2]``: the planes of an observation but that of the agent."""
        planes = np.zeros((self._size, self._size, 2), dtype=np.int64)
        planes[:, :, 0] = self._walls
        planes[self._goal][1] = 1
        return planes

    def process_states(self, observations: Sequence[int], maze_maps: np.ndarray) -> np.ndarray:
        """The observation int64 ``[size, size, 3]`` of an agent at ``observations``, its row and column."""
        agent = np.zeros((*maze_maps.shape[:2], 1), dtype=np.int64)
        agent[tuple(observations)] = 1
        return np.concatenate([maze_maps, agent], axis=-1)

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """See :class:`BaseEnv`."""
        self._seed, self._dynamic_seed = seed, dynamic_seed
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Any:
        """Make the maze; returns the first observation."""
        if self._seed is not None and not self._dynamic_seed:
            self._rng = np.random.default_rng(self._seed)
        self._walls = self._carved()
        free = np.argwhere(self._walls == 0)
        self._cell, self._goal = map(tuple, free[self._rng.choice(len(free), size=2, replace=False)])
        self._num_steps = 0
        return self._obs()

    def _carved(self) -> np.ndarray:
        """Walls of a maze without circles, int64 ``[size, size]``: tunnels dug from room to room, depth first."""
        walls = np.ones((self._size, self._size), dtype=np.int64)
        path = [(1, 1)]
        walls[1, 1] = 0
        while path:
            row, column = path[-1]
            for down, right in self._rng.permutation(_MOVES).tolist():
                room = row + 2 * down, column + 2 * right
                if min(room) > 0 and max(room) < self._size - 1 and walls[room]:
                    walls[row + down, column + right] = walls[room] = 0
                    path.append(room)
                    break
            else:
                path.pop()
        return walls

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Go one cell, where there is no wall.

        Raises:
            ValueError: there is no such action.
        """
        move = int(np.asarray(action).reshape(()))
        if not 0 <= move < len(_MOVES):
            raise ValueError(f"the action is one of 0 to {len(_MOVES) - 1}, found {action!r}")
        cell = self._cell[0] + _MOVES[move][0], self._cell[1] + _MOVES[move][1]
        if not self._walls[cell]:
            self._cell = cell
        self._num_steps += 1
        won = self._cell == self._goal
        over = self._num_steps >= self._max_step
        info: dict[str, Any] = (
            {"eval_episode_return": float(won), "final_eval_reward": float(won)} if won or over else {}
        )
        if over and not won:
            info["TimeLimit.truncated"] = True
        return BaseEnvTimestep(self._obs(), np.array([won], dtype=np.float32), won or over, info)

    def _obs(self) -> np.ndarray:
        planes = self.process_states(self._cell, self.get_maze_map())
        return planes.reshape(-1).astype(np.float32) if self._flat else planes

    def random_action(self) -> np.ndarray:
        """A random action, int64 ``(1,)``."""
        return self._rng.integers(len(_MOVES), size=1)

    def close(self) -> None:
        """Nothing is held."""

    def __repr__(self) -> str:
        return f"Maze({self._size} x {self._size}, {self._max_step} steps)"
