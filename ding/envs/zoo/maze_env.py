"""Procedural mazes, one per seed, with a single reward at the goal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv
from ding.utils import ENV_REGISTRY, did_you_mean

# Down, right, up, left.
_MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))
# Cell types of a maze, and their characters on a map.
_EMPTY, _WALL, _TARGET, _START = range(4)
_SIGNS = " xTS"
# Distance between rooms of tunnels, which are 2 wide with a wall in between.
_STRIDE = 3
_TUNNELS = tuple((_STRIDE * row, _STRIDE * column) for row, column in ((0, 1), (0, -1), (1, 0), (-1, 0)))
_LOOP_CHANCE = 0.1
_MAX_DRAWS = 1000
_Cell = tuple[int, int]


def generate_maze(size: int, seed: int, wall_type: str = "tunnel") -> np.ndarray:
    """Generate the maze of a seed, int64 ``[size, size]``: 0 is free, 1 a wall, 2 the goal, 3 the start.

    Args:
        size: Cells along an axis.
        wall_type: See :class:`Maze`.

    Raises:
        ValueError: ``wall_type`` is unknown, or ``size`` has no room for start and goal.
    """
    return _generated(size, np.random.default_rng(seed), wall_type)


def _generated(size: int, rng: np.random.Generator, wall_type: str) -> np.ndarray:
    make, smallest = _walls_of(wall_type)
    if size < smallest:
        raise ValueError(f"env.size must be at least {smallest} with env.wall_type {wall_type!r}, found {size}")
    cells = make(size, rng)
    if wall_type == "tree":
        free = np.argwhere(cells == _EMPTY)
        start, target = (tuple(cell) for cell in free[rng.choice(len(free), size=2, replace=False)])
    else:
        target = _free_cell(cells, rng)
        cells[target] = _TARGET
        start = _free_cell(cells, rng)
    cells[target], cells[start] = _TARGET, _START
    return cells


def _walls_of(wall_type: str) -> tuple[Callable[[int, np.random.Generator], np.ndarray], int]:
    """Return the generator of the walls, and its minimum size.

    Raises:
        ValueError: ``wall_type`` is unknown.
    """
    if wall_type in _WALLS:
        return _WALLS[wall_type]
    kind, _, number = wall_type.partition(":")
    if kind == "blocks" and number.isdecimal():
        return lambda size, rng: _blocks(size, rng, int(number)), _SMALLEST_ROOM
    raise ValueError(
        f"env.wall_type must be 'tunnel', 'tree', 'none' or 'blocks:<n>', found {wall_type!r}."
        + did_you_mean(wall_type, [*_WALLS, "blocks:<n>"])
    )


def _free_cell(cells: np.ndarray, rng: np.random.Generator) -> _Cell:
    for _ in range(_MAX_DRAWS):
        row, column = rng.integers(1, len(cells), 2).tolist()
        if cells[row, column] == _EMPTY:
            return row, column
    raise ValueError(f"found no free cell in a maze of {len(cells)} x {len(cells)} cells")


def _tunnels(size: int, rng: np.random.Generator) -> np.ndarray:
    """Dig tunnels of width 2 from room to room, depth first; some of them form loops."""
    cells = np.full((size, size), _WALL)

    def ways() -> Iterator[_Cell]:
        return iter([_TUNNELS[index] for index in rng.permutation(len(_TUNNELS))])

    room = (1, 1)
    cells[room] = _EMPTY
    path = [(room, ways())]
    while path:
        room, left = path[-1]
        for down, right in left:
            following = room[0] + down, room[1] + right
            if min(following) < 1 or max(following) + 1 > size - 2:
                continue
            is_new = cells[following] == _WALL
            if is_new or rng.random() < _LOOP_CHANCE:
                (top, bottom), (west, east) = (sorted(ends) for ends in zip(room, following))
                cells[top : bottom + 2, west : east + 2] = _EMPTY
            if is_new:
                path.append((following, ways()))
                break
        else:
            path.pop()
    return cells


def _tree(size: int, rng: np.random.Generator) -> np.ndarray:
    """Dig tunnels of width 1 from room to room, depth first, without loops."""
    cells = np.full((size, size), _WALL)
    path = [(1, 1)]
    cells[1, 1] = _EMPTY
    while path:
        row, column = path[-1]
        for down, right in rng.permutation(_MOVES).tolist():
            room = row + 2 * down, column + 2 * right
            if min(room) > 0 and max(room) < size - 1 and cells[room] == _WALL:
                cells[row + down, column + right] = cells[room] = _EMPTY
                path.append(room)
                break
        else:
            path.pop()
    return cells


def _blocks(size: int, rng: np.random.Generator, number: int) -> np.ndarray:
    """Build outer walls, and ``number`` rectangles within, up to a quarter of an axis long."""
    cells = np.full((size, size), _EMPTY)
    cells[[0, -1]] = cells[:, [0, -1]] = _WALL
    for _ in range(number):
        top, west = rng.integers(1, size - 1, 2)
        height, width = rng.integers(1, max(2, size // 4 + 1), 2)
        cells[top : top + height, west : west + width] = _WALL
    return cells


_SMALLEST_ROOM = 4
_WALLS: Mapping[str, tuple[Callable[[int, np.random.Generator], np.ndarray], int]] = {
    "tunnel": (_tunnels, 7),
    "tree": (_tree, 5),
    "none": (lambda size, rng: _blocks(size, rng, 0), _SMALLEST_ROOM),
}


@ENV_REGISTRY.register("maze")
class Maze(BaseEnv):
    """Walk from a random cell of a maze to its goal.

    The observation is int64 ``(size, size, 3)`` with planes of walls, goal and agent, or float32 ``(3 * size * size,)``
    with ``flat_obs``, or with ``pixels`` an image of these planes as colours, uint8 ``(3, pixels, pixels)``. The four
    actions are down, right, up and left; walls block moves. The reward is 1 at the goal, which ends the episode, else
    0. The episode is truncated after ``max_step`` steps.

    With ``dynamic_seed=False`` every episode uses the maze of the seed, otherwise each one a different maze.

    Args:
        cfg: ``size`` (cells along an axis including the outer walls, default 16), ``flat_obs`` (default False),
            ``pixels`` (side of the image; default None: no image), ``max_step`` (default 100) and ``wall_type``:
            ``'tunnel'`` (the default; width 2, with loops), ``'tree'`` (width 1, a unique path between any two cells),
            ``'none'`` (outer walls only), or ``'blocks:<n>'`` (n blocks, which may make the goal unreachable).

    Raises:
        ValueError: ``wall_type`` is unknown, ``size`` is too small for it (tunnels need 7, trees 5, others 4),
            ``max_step`` is below 1, or ``pixels`` is below ``size``.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        cfg = cfg or {}
        self._size, self._max_step = int(cfg.get("size", 16)), int(cfg.get("max_step", 100))
        self._wall_type = str(cfg.get("wall_type", "tunnel"))
        smallest = _walls_of(self._wall_type)[1]
        if self._size < smallest or self._max_step < 1:
            raise ValueError(
                f"env.size must be at least {smallest} with env.wall_type {self._wall_type!r}, and env.max_step 1, "
                f"found {self._size}, {self._max_step}"
            )
        self._flat = bool(cfg.get("flat_obs", False))
        self._pixels: int | None = cfg.get("pixels")
        if self._pixels is not None and self._pixels < self._size:
            raise ValueError(f"env.pixels must be at least env.size, found {self._pixels} and {self._size}")
        if self._flat:
            self.observation_space = gymnasium.spaces.Box(0, 1, (3 * self._size**2,), np.float32)
        elif self._pixels is not None:
            self.observation_space = gymnasium.spaces.Box(0, 255, (3, self._pixels, self._pixels), np.uint8)
        else:
            self.observation_space = gymnasium.spaces.Box(0, 1, (self._size, self._size, 3), np.int64)
        self.action_space = gymnasium.spaces.Discrete(len(_MOVES))
        self.reward_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        self._seed: int | None = None
        self._dynamic_seed = True
        self._rng = np.random.default_rng()
        self._cells = np.full((self._size, self._size), _WALL)
        self._cell: _Cell = (1, 1)
        self._goal: _Cell = (1, 1)
        self._num_steps = 0

    @property
    def size(self) -> int:
        """Cells along an axis, including the outer walls."""
        return self._size

    @property
    def n_action(self) -> int:
        """Number of actions, 4."""
        return len(_MOVES)

    @property
    def n_state(self) -> int:
        """Number of cells, ``size * size``."""
        return self._size**2

    @property
    def target_location(self) -> tuple[int, int]:
        """``(row, column)`` of the goal."""
        return self._goal

    @property
    def nav_map(self) -> list[list[str]]:
        """Map ``[size][size]``: ``'x'`` is a wall, ``' '`` a free cell, ``'T'`` the goal, ``'S'`` the start of the
        episode.
        """
        return [[_SIGNS[cell] for cell in row] for row in self._cells.tolist()]

    def get_maze_map(self) -> np.ndarray:
        """Return walls and goal, int64 ``[size, size, 2]``: the planes of an observation without that of the agent."""
        return np.stack([self._cells == _WALL, self._cells == _TARGET], axis=-1).astype(np.int64)

    def process_states(self, observations: Sequence[int], maze_maps: np.ndarray) -> np.ndarray:
        """Return the observation, int64 ``[size, size, 3]``, of an agent at ``observations``, its row and column."""
        agent = np.zeros((*maze_maps.shape[:2], 1), dtype=np.int64)
        agent[tuple(observations)] = 1
        return np.concatenate([maze_maps, agent], axis=-1)

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """See :class:`BaseEnv`."""
        self._seed, self._dynamic_seed = seed, dynamic_seed
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Generate the maze and return the first observation."""
        if self._seed is not None and not self._dynamic_seed:
            self._rng = np.random.default_rng(self._seed)
        self._cells = _generated(self._size, self._rng, self._wall_type)
        self._goal, self._cell = (self._only(kind) for kind in (_TARGET, _START))
        self._num_steps = 0
        return self._obs()

    def random_start(self) -> np.ndarray:
        """Place the agent on a random free cell; return the observation there."""
        free = np.argwhere((self._cells != _WALL) & (self._cells != _TARGET))
        row, column = self._rng.choice(free).tolist()
        self._cell = row, column
        return self._obs()

    def _only(self, kind: int) -> _Cell:
        row, column = np.argwhere(self._cells == kind)[0].tolist()
        return row, column

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Move one cell, unless there is a wall.

        Raises:
            ValueError: The action does not exist.
        """
        move = int(np.asarray(action).reshape(()))
        if not 0 <= move < len(_MOVES):
            raise ValueError(f"the action is one of 0 to {len(_MOVES) - 1}, found {action!r}")
        cell = self._cell[0] + _MOVES[move][0], self._cell[1] + _MOVES[move][1]
        if self._cells[cell] != _WALL:
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
        if self._pixels is not None and not self._flat:
            cells = np.arange(self._pixels) * self._size // self._pixels
            image = 255 * planes[cells][:, cells].transpose(2, 0, 1)
            return np.asarray(image, dtype=np.uint8)
        return planes.reshape(-1).astype(np.float32) if self._flat else planes

    def random_action(self) -> np.ndarray:
        """Return a random action, int64 ``(1,)``."""
        return self._rng.integers(len(_MOVES), size=1)

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        return f"Maze({self._size} x {self._size}, {self._max_step} steps)"
