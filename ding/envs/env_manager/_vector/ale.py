"""Vector env of ale-py with resets of single games from their own seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper


class AleGames(VectorWrapper):
    """Adds a seed per game and resets of single games; observations and rewards are those of ale-py.

    An episode may end with a lost life (``life_loss_info``): a game restarts only after all lives are lost.

    Args:
        env: An ``ale_py.vector_env.AtariVectorEnv``.
    """

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        self._lives = np.zeros(self.num_envs, dtype=np.int32)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset all games, or those of ``options['reset_mask']``, with one seed each."""
        given = None if seed is None else [-1 if value is None else value for value in np.atleast_1d(seed)]
        seeds = None if given is None else np.array(given, dtype=np.int64)
        frames, infos = self.env.reset(seed=seeds, options=options)  # type: ignore[arg-type]
        self._lives = infos["lives"]
        return frames, infos

    def step(self, actions: Any) -> tuple[np.ndarray, Any, Any, Any, dict[str, Any]]:
        """Step all games."""
        frames, rewards, terminated, truncated, infos = self.env.step(np.asarray(actions, dtype=np.int64))
        self._lives = np.where(truncated, 0, infos["lives"])
        return frames, rewards, terminated, truncated, infos

    def reset_rows(self, mask: np.ndarray, seeds: Sequence[int] | None = None) -> np.ndarray:
        """Start new games where the old ones are over, but not after a lost life; return the frames."""
        over = mask & (self._lives == 0)
        seed = None if seeds is None else [seeds[row] for row in np.flatnonzero(over).tolist()]
        return self.reset(seed=seed, options={"reset_mask": over})[0]


def with_games(env: VectorEnv) -> VectorEnv:
    """Wrap a vector env of ale-py in :class:`AleGames`; return others unchanged."""
    return AleGames(env) if type(env).__module__ == "ale_py.vector_env" else env
