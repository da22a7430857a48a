"""Small cooperative game with a known optimal return: agents on a line cover landmarks."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv
from ding.utils import ENV_REGISTRY

_STAY, _LEFT, _RIGHT = range(3)
_MOVES = np.array([0, -1, 1])
_ONE_HOT_MOVE = np.eye(3, dtype=np.float32)


@ENV_REGISTRY.register("line_cover")
class LineCoverEnv(BaseEnv):
    """A agents move on n cells so that each of A landmarks is covered by an agent.

    The shared reward is the covered fraction of the landmarks. Actions are int64 ``(A,)``: stay, left, right.
    Observations are dicts of float32 arrays in the form of DI-engine's cooperative envs:

    * ``agent_state`` ``(A, 3n + 3 + A)``: own cell, landmarks, number of other agents per cell, last action, index of
      the agent (all one-hot but the third);
    * ``agent_alone_state`` ``(A, 2n)``: the first two of them; ``agent_alone_padding_state``: ``agent_state`` without
      other agents;
    * ``global_state`` ``(A n + n,)``: the cells of all agents and the landmarks; or ``(A, 4n + 3 + 2A)``, preceded by
      each agent's own state, with ``agent_specific_global_state``;
    * ``action_mask`` ``(A, 3)``: 0 for a move beyond the ends of the line.

    Cells and landmarks are random in each episode. An episode is truncated after ``max_cycles`` steps.

    Args:
        cfg: ``n_agent`` (A, default 2), ``n_cell`` (n, default 6), ``max_cycles`` (default 8),
            ``agent_specific_global_state`` (default False).

    Raises:
        ValueError: There are fewer cells than agents, or a count is below 1.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        cfg = cfg or {}
        self._agents, self._cells = int(cfg.get("n_agent", 2)), int(cfg.get("n_cell", 6))
        self._max_cycles = int(cfg.get("max_cycles", 8))
        self._specific = bool(cfg.get("agent_specific_global_state", False))
        if not 1 <= self._agents <= self._cells or self._max_cycles < 1:
            raise ValueError(
                "env: line_cover needs 1 <= n_agent <= n_cell and max_cycles >= 1, found "
                f"n_agent={self._agents}, n_cell={self._cells}, max_cycles={self._max_cycles}"
            )
        self._one_hot_cell = np.eye(self._cells, dtype=np.float32)
        self._one_hot_agent = np.eye(self._agents, dtype=np.float32)
        self._rng = np.random.default_rng()
        self._position = self._landmarks = np.arange(self._agents)
        self._last_action: np.ndarray | None = None
        self._num_steps, self._return = 0, 0.0
        self.action_space = gymnasium.spaces.MultiDiscrete([3] * self._agents)
        self.reward_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        box = gymnasium.spaces.Box
        self.observation_space = gymnasium.spaces.Dict(
            {key: box(0.0, float(self._agents), value.shape, np.float32) for key, value in self._obs().items()}
        )

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed the sequence of tasks; ``dynamic_seed`` is ignored, because a single task would measure nothing."""
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Sample new cells and landmarks, and return the observation."""
        self._position = self._rng.integers(self._cells, size=self._agents)
        self._landmarks = self._rng.permutation(self._cells)[: self._agents]
        self._last_action = None
        self._num_steps, self._return = 0, 0.0
        return self._obs()

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Move all agents.

        Raises:
            ValueError: There is not one action of 0, 1, 2 per agent, or a move exceeds the ends of the line.
        """
        moves = np.asarray(action)
        if moves.shape != (self._agents,) or not ((moves == _STAY) | (moves == _LEFT) | (moves == _RIGHT)).all():
            raise ValueError(f"the action is one of 0, 1, 2 for each of {self._agents} agents, found {action!r}")
        position = self._position + _MOVES[moves]
        if position.min() < 0 or position.max() >= self._cells:
            raise ValueError(f"action {moves.tolist()} at cells {self._position.tolist()} leaves the line")
        self._position, self._last_action = position, moves
        self._num_steps += 1
        reward = float((self._landmarks[:, None] == position).any(1).mean())
        self._return += reward
        truncated = self._num_steps >= self._max_cycles
        info = {"TimeLimit.truncated": True, "eval_episode_return": self._return} if truncated else {}
        return BaseEnvTimestep(self._obs(), np.array([reward], dtype=np.float32), truncated, info)

    def best_return(self) -> float:
        """Return the optimal return of an episode from the current cells, by dynamic programming."""
        at = np.indices((self._cells,) * self._agents)
        reward = np.mean([(at == landmark).any(0) for landmark in self._landmarks], axis=0)
        value = np.zeros_like(reward)
        for _ in range(self._max_cycles):
            value += reward
            for axis in range(self._agents):
                edge = np.take(value, [0, -1], axis)
                padded = np.concatenate([np.take(edge, [0], axis), value, np.take(edge, [1], axis)], axis)
                value = np.lib.stride_tricks.sliding_window_view(padded, 3, axis).max(-1)
        return float(value[tuple(self._position)])

    def _obs(self) -> dict[str, np.ndarray]:
        agents, cells = self._agents, self._cells
        own = self._one_hot_cell[self._position]
        landmarks = self._one_hot_cell[self._landmarks].sum(0)
        others = own.sum(0) - own
        none = np.zeros((agents, 3), np.float32)
        last = none if self._last_action is None else _ONE_HOT_MOVE[self._last_action]
        alone = np.concatenate([own, landmarks[None].repeat(agents, 0)], axis=1)
        tail = np.concatenate([last, self._one_hot_agent], axis=1)
        everything = np.concatenate([own.ravel(), landmarks])
        seen = np.concatenate([alone, others, tail], axis=1)
        if self._specific:
            everything = np.concatenate([seen, everything[None].repeat(agents, 0)], axis=1)
        mask = np.ones((agents, 3), np.float32)
        mask[self._position == 0, _LEFT] = 0
        mask[self._position == cells - 1, _RIGHT] = 0
        return {
            "agent_state": seen,
            "agent_alone_state": alone,
            "agent_alone_padding_state": np.concatenate([alone, np.zeros_like(others), tail], axis=1),
            "global_state": everything,
            "action_mask": mask,
        }

    def random_action(self) -> np.ndarray:
        """Return a random allowed move of each agent, int64 ``(A,)``."""
        mask = self._obs()["action_mask"]
        return np.array([self._rng.choice(np.flatnonzero(row)) for row in mask])

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        return f"LineCoverEnv({self._agents} agents, {self._cells} cells)"
