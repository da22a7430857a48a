"""The vector env of ale-py, in which single games begin anew from seeds of their own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper


class AleGames(VectorWrapper):
    """A seed per game, and resets of single games; observations and rewards are those of ale-py.

    An episode may end with a lost life (``life_loss_info``): a game begins anew only where all lives are lost.

    Args:
        env: an ``ale_py.vector_env.AtariVectorEnv``.
    """

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        self._lives = np.zeros(self.num_envs, dtype=np.int32)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset all games, or those of ``options['reset_mask']``; one seed for each of them."""
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
        """Begin new games where the old ones are over, and not where only a life was lost; returns the frames."""
        over = mask & (self._lives == 0)
        seed = None if seeds is None else [seeds[row] for row in np.flatnonzero(over).tolist()]
        return self.reset(seed=seed, options={"reset_mask": over})[0]


def with_games(env: VectorEnv) -> VectorEnv:
    """Return a vector env of ale-py as :class:`AleGames`, any other as it is."""
    return AleGames(env) if type(env).__module__ == "ale_py.vector_env" else env
