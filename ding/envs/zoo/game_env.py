"""One-step matrix games of two players: the smallest envs for self-play."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv
from ding.utils.names import check_choice

# Rewards of both players by their actions.
_PAYOFFS = {
    "prisoner_dilemma": [[(-1, -1), (-20, 0)], [(0, -20), (-10, -10)]],
    "zero_sum": [[(3, -3), (-2, 2)], [(-2, 2), (1, -1)]],
}
# Action probabilities in the unique equilibrium.
_EQUILIBRIA = {"prisoner_dilemma": [0.0, 1.0], "zero_sum": [0.375, 0.625]}


class GameEnv(BaseEnv):
    """Both players simultaneously choose one of two actions, which ends the game.

    Observations are float32 ``(2, 2)``, one-hot rows that identify the player. An action is a list of two ints, a
    reward float32 ``(2, 1)``. The info is a list of one dict per player, with ``result`` (``wins``, ``losses`` or
    ``draws``) and ``eval_episode_return``. The spaces are those of one player.

    Args:
        game_type: ``prisoner_dilemma`` (actions: keep silent, betray) or ``zero_sum``.

    Raises:
        ValueError: The game is unknown.
    """

    def __init__(self, game_type: str = "prisoner_dilemma") -> None:
        check_choice("game_type", game_type, _PAYOFFS)
        self.game_type = game_type
        self.optimal_policy = np.array(_EQUILIBRIA[game_type], dtype=np.float32)
        self._payoffs = np.array(_PAYOFFS[game_type], dtype=np.float32)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.reward_space = gymnasium.spaces.Box(-20.0, 3.0, (1,), np.float32)
        self._rng = np.random.default_rng()

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed :meth:`random_action`; the game itself is deterministic."""
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Return the observation, which is constant."""
        return np.eye(2, dtype=np.float32)

    def step(self, action: Sequence[Any]) -> BaseEnvTimestep:  # type: ignore[override]
        """Play the game.

        Raises:
            ValueError: There is not one action per player, or an action does not exist.
        """
        given = [np.asarray(one) for one in action]
        first, second = (one.item() for one in given) if [one.size for one in given] == [1, 1] else (-1, -1)
        if {first, second} - {0, 1}:
            raise ValueError(f"expected two actions, each 0 or 1, found {action!r}")
        reward = self._payoffs[int(first), int(second)]
        words = ("draws", "wins", "losses")
        leads = (reward[0] > reward[1], reward[0] < reward[1])
        infos = [
            {"result": words[int(won) + 2 * int(lost)], "eval_episode_return": reward[player : player + 1]}
            for player, (won, lost) in enumerate((leads, leads[::-1]))
        ]
        return BaseEnvTimestep(np.eye(2, dtype=np.float32), reward[:, None], True, infos)  # type: ignore[arg-type]

    def random_action(self) -> np.ndarray:
        """Return two random actions, int64 ``(2,)``."""
        return self._rng.integers(2, size=2)

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        return f"GameEnv({self.game_type})"
