"""Small two-player game: collect more coins on a grid than the opponent.

A coin is on a square grid. Both players move simultaneously and may share a cell. A player that is alone on the coin's
cell takes the coin; if both are there, neither does. In both cases a new coin appears on a free cell. After a fixed
number of steps the player with more coins wins. A coin pays 1 to the player who takes it and -1 to the other, so the
game is zero-sum and symmetric.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv, copy_cfg
from ding.utils import ENV_REGISTRY, did_you_mean

# Stay, or move one cell along an axis.
_MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
# Probability that a scripted opponent moves towards the coin; otherwise it moves at random.
_OPPONENTS = {"RANDOM": 0.0, "RULE_BASED": 0.5, "GREEDY": 1.0}


@ENV_REGISTRY.register("duel")
class DuelEnv(BaseEnv):
    """Coin game for two external players, or for one player against a scripted opponent.

    With two players, observations are float32 ``(2, 8)`` (one row per player), actions are two integers below 5,
    rewards are float32 ``(2,)``, and ``info`` is a list of one dict per player, with ``eval_episode_return`` (the
    player's lead in coins)
    at the end. With an opponent, the env has the single player 0: ``(8,)``, one action, ``(1,)``, one dict.

    The observation of a player contains, as fractions of the grid size, the offsets from the own and the other's cell
    to the coin and the own cell, followed by the own lead (divided by ten) and the fraction of the remaining steps.

    Args:
        cfg: ``size`` (cells along an axis, at least 2, default 5), ``steps`` (length of a game, default 30), and
            ``eval_opponent``: ``None`` for two players, or ``'RANDOM'``, ``'RULE_BASED'`` (moves towards the coin half
            of the time) or ``'GREEDY'`` (always).

    Raises:
        ValueError: A value is invalid.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        cfg = cfg or {}
        self._size, self._steps = int(cfg.get("size", 5)), int(cfg.get("steps", 30))
        if self._size < 2 or self._steps < 1:
            raise ValueError(f"env.size must be at least 2 and env.steps at least 1, found {self._size}, {self._steps}")
        self._opponent = cfg.get("eval_opponent")
        if self._opponent is not None and self._opponent not in _OPPONENTS:
            hint = did_you_mean(str(self._opponent), _OPPONENTS)
            raise ValueError(f"env.eval_opponent must be one of {list(_OPPONENTS)}, found {self._opponent!r}.{hint}")
        self._players = 1 if self._opponent else 2
        # Spaces of one player, from the view of its network.
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(_MOVES))
        self.reward_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._seed: int | None = None
        self._dynamic_seed = True
        self._rng = np.random.default_rng()
        self._cells = np.zeros((2, 2), dtype=np.int64)
        self._coin = np.zeros(2, dtype=np.int64)
        self._lead = 0
        self._left = 0

    @staticmethod
    def create_collector_env_cfg(cfg: MutableMapping[str, Any]) -> list[Any]:
        """Return one config per collector env, without ``eval_opponent``: collectors provide both players."""
        return copy_cfg(cfg, "collector_env_num", eval_opponent=None)

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """See :class:`BaseEnv`."""
        self._seed, self._dynamic_seed = seed, dynamic_seed
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Place both players and the coin on random cells; return the first observation."""
        if self._seed is not None and not self._dynamic_seed:
            self._rng = np.random.default_rng(self._seed)
        self._cells = self._rng.integers(self._size, size=(2, 2))
        self._lead, self._left = 0, self._steps
        self._place_coin()
        return self._obs()

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Move both players.

        Raises:
            ValueError: There is not one action per player, or an action does not exist.
        """
        moves = np.asarray(action).reshape(-1)
        if len(moves) != self._players or not np.isin(moves, np.arange(len(_MOVES))).all():
            raise ValueError(f"expected {self._players} action(s) below {len(_MOVES)}, found {action!r}")
        if self._opponent is not None:
            moves = np.append(moves, self._scripted_move(_OPPONENTS[self._opponent]))
        self._cells = np.clip(self._cells + _MOVES[moves.astype(np.int64)], 0, self._size - 1)
        taken = (self._cells == self._coin).all(axis=1)
        gain = int(taken[0]) - int(taken[1])
        if taken.any():
            self._place_coin()
        self._lead += gain
        self._left -= 1
        return self._timestep(gain)

    def _timestep(self, gain: int) -> BaseEnvTimestep:
        done = self._left <= 0
        infos: list[dict[str, Any]] = [
            {"eval_episode_return": float(lead)} if done else {} for lead in (self._lead, -self._lead)
        ]
        reward = np.array([gain, -gain], dtype=np.float32)
        if self._players == 1:
            return BaseEnvTimestep(self._obs(), reward[:1], done, infos[0])
        return BaseEnvTimestep(self._obs(), reward, done, infos)  # type: ignore[arg-type]

    def _place_coin(self) -> None:
        """Place the coin on a cell without a player."""
        cells = self._rng.permutation(self._size**2)[:3]
        occupied = self._cells @ np.array([self._size, 1])
        free = cells[~np.isin(cells, occupied)][0]
        self._coin = np.array(divmod(int(free), self._size))

    def _scripted_move(self, skill: float) -> int:
        way = self._coin - self._cells[1]
        if self._rng.random() >= skill or not way.any():
            return int(self._rng.integers(len(_MOVES)))
        axis = int(np.argmax(np.abs(way)))
        return 1 + 2 * axis + int(way[axis] > 0)

    def _obs(self) -> np.ndarray:
        ways, cells = (self._coin - self._cells) / self._size, self._cells / self._size
        left = self._left / self._steps
        rows = [
            [*ways[player], *ways[1 - player], *cells[player], lead / 10, left]
            for player, lead in enumerate((self._lead, -self._lead))
        ]
        return np.array(rows[0] if self._players == 1 else rows, dtype=np.float32)

    def random_action(self) -> np.ndarray:
        """Return a random action per player, int64 ``(2,)`` or, with an opponent, ``(1,)``."""
        return self._rng.integers(len(_MOVES), size=self._players)

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        against = f", against {self._opponent}" if self._opponent else ""
        return f"DuelEnv({self._size} x {self._size}, {self._steps} steps{against})"
