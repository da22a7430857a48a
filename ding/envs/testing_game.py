"""Counting env with several players, for tests of battle workers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.testing import CountingEnv


class CountingGame(CountingEnv):
    """Counting env with several players: player ``p`` observes ``[100 * p + e, t]``, with reward ``t`` if ``p`` is
    even, else ``-t``. Observations ``(n, 2)`` and rewards ``(n, 1)`` have one row per player, an action is a list with
    one entry per player, and the info is a list of one dict per player. The spaces are those of one player.

    Args:
        cfg: Fields of :class:`~ding.envs.testing.CountingSettings`, and ``num_players`` (default 2).
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        super().__init__(cfg)
        players = np.arange((cfg or {}).get("num_players", 2))[:, None]
        self._signs = np.where(players % 2, -1.0, 1.0).astype(np.float32)

    def reset(self, **kwargs: Any) -> Obs:
        """Start the next episode."""
        return self._for_players(super().reset(**kwargs))

    def step(self, action: Sequence[object]) -> BaseEnvTimestep:  # type: ignore[override]
        """Count one step.

        Raises:
            ValueError: There is not one action per player.
        """
        if len(action) != len(self._signs):
            raise ValueError(f"expected {len(self._signs)} actions, found {action!r}")
        obs, reward, done, info = super().step(action)
        infos = [dict(info) for _ in self._signs]
        if done:
            for own, sign in zip(infos, self._signs[:, 0].tolist()):
                own["eval_episode_return"] = sign * self._return
        return BaseEnvTimestep(self._for_players(obs), reward * self._signs, done, infos)  # type: ignore[arg-type]

    def _for_players(self, obs: np.ndarray) -> np.ndarray:
        rows = np.tile(obs, (len(self._signs), 1))
        rows[:, 0] += 100 * np.arange(len(rows))
        return rows
