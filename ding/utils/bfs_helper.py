"""Value iteration in a maze as breadth-first search from the goal, step by step."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

# Action -> (dx, dy) of the move it makes.
_MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))


class Maze(Protocol):
    """Role protocol of a maze for the search."""

    @property
    def size(self) -> int:
        """W, the number of cells along each axis."""

    @property
    def n_action(self) -> int:
        """Number of actions."""

    @property
    def target_location(self) -> Sequence[int]:
        """``(x, y)`` of the goal."""

    @property
    def nav_map(self) -> Sequence[Sequence[str]]:
        """``[W][W]``, ``'x'`` for each wall."""

    def get_maze_map(self) -> np.ndarray:
        """Return the map of walls and goal in the form that ``process_states`` takes."""

    def process_states(self, observations: Sequence[int], maze_maps: np.ndarray) -> np.ndarray:
        """Return the observation ``[W, W, C]`` for an agent at position ``observations``, ``[x, y]``."""


def get_vi_sequence(env: Maze, observation: np.ndarray) -> tuple[np.ndarray, list[tuple[torch.Tensor, np.int32]]]:
    """Return the maps of best actions as they spread from the goal, and the best path.

    Args:
        env: The maze.
        observation: ``[W, W, C]``; the last channel is 1 at the position of the agent.

    Returns:
        The maps, int32 ``[L, W, W]``, one per distance up to that of the agent, with ``n_action`` in cells not reached
        yet; and the path from the agent to the goal (empty if the goal is unreachable): for each cell the observation,
        float32 ``[W, W, C]``, and the action, a numpy int32.

    Raises:
        ValueError: The observation does not show exactly one agent.
    """
    agents = np.argwhere(np.asarray(observation)[..., -1] == 1)
    if len(agents) != 1:
        raise ValueError(f"the observation must show one agent, it shows {len(agents)}")
    start = (int(agents[0][0]), int(agents[0][1]))
    target = (int(env.target_location[0]), int(env.target_location[1]))
    nav_map = env.nav_map
    best = np.full((env.size, env.size), env.n_action, dtype=np.int32)
    reached, frontier, maps = {target}, [target], []
    while frontier and start not in reached:
        following = []
        for x, y in frontier:
            for action, (dx, dy) in enumerate(_MOVES):
                cell = (x - dx, y - dy)  # the cell from which this action leads to (x, y)
                inside = 0 <= cell[0] < env.size and 0 <= cell[1] < env.size
                if inside and cell not in reached and nav_map[cell[0]][cell[1]] != "x":
                    best[cell] = action
                    reached.add(cell)
                    following.append(cell)
        frontier = following
        maps.append(best.copy())
    path: list[tuple[torch.Tensor, np.int32]] = []
    cell, maze_map = start, env.get_maze_map()
    while start in reached and cell != target:
        action = best[cell]
        path.append((torch.as_tensor(env.process_states(list(cell), maze_map)).float(), action))
        cell = (cell[0] + _MOVES[action][0], cell[1] + _MOVES[action][1])
    return np.array(maps, dtype=np.int32).reshape(-1, env.size, env.size), path
