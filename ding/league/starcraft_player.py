"""The players of AlphaStar's league: a main player, and exploiters that search for its weaknesses.

See Vinyals et al., "Grandmaster level in StarCraft II using multi-agent reinforcement learning" (Nature 2019). A player
without snapshots to choose from plays itself, or the main player drawn by its branch.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from ding.league.player import ActivePlayer, HistoricalPlayer, Player
from ding.utils import PLAYER_REGISTRY
from ding.utils.errors import InvalidArgumentError


class _LeaguePlayer(ActivePlayer):
    """Base class of the three kinds: choices among the snapshots of others."""

    def _random_main_player(self) -> "MainPlayer":
        mains = [player for player in self.payoff.players if isinstance(player, MainPlayer)]
        if not mains:
            raise ValueError(f"{self.player_id} chooses among the main players of the league, and there are none")
        return mains[int(np.random.choice(len(mains)))]

    def _history_of(self, parents: Collection[str]) -> list[Player]:
        return self._get_players(lambda player: isinstance(player, HistoricalPlayer) and player.parent_id in parents)


@PLAYER_REGISTRY.register("main_player")
class MainPlayer(_LeaguePlayer):
    """A player trained to beat all others.

    Branches: ``pfsp`` (all history, the harder ones more often), ``sp`` (a main player, or its history while it is too
    strong) and ``verification`` (former exploiters, while they win).
    """

    _name = "MainPlayer"

    def _sp_branch(self) -> Player:
        main = self._random_main_player()
        if self.payoff[self.player_id, main.player_id] > 1 - self._strong_win_rate:
            return main
        return self._prioritised(self._history_of([main.player_id]), "variance") or main

    def _verification_branch(self) -> Player:
        exploiters = [player.player_id for player in self.payoff.players if isinstance(player, MainExploiter)]
        strong = self._history_of(exploiters)
        if strong and min(self._win_rates(strong)) < 1 - self._strong_win_rate:
            return self._prioritised(strong, "squared") or self
        former = self._history_of([self._random_main_player().player_id])
        if former and min(self._win_rates(former)) < self._strong_win_rate:
            return self._prioritised(former, "squared") or self
        return self._sp_branch()


@PLAYER_REGISTRY.register("main_exploiter")
class MainExploiter(_LeaguePlayer):
    """A player that exploits weaknesses of the main players, and is reset after each snapshot.

    Additional config: ``min_valid_win_rate``, the win rate below which it plays the snapshots of a main player instead.
    Its branch is ``main_players``.
    """

    _name = "MainExploiter"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._min_valid_win_rate = float(self._cfg["min_valid_win_rate"])

    def _main_players_branch(self) -> Player:
        main = self._random_main_player()
        if self.payoff[self.player_id, main.player_id] >= self._min_valid_win_rate:
            return main
        return self._prioritised(self._history_of([main.player_id]), "variance") or main

    def is_trained_enough(self, select_fn: Callable[[Player], bool] | None = None) -> bool:
        """Return whether a snapshot is due: after two phases, or after one if it beats all main players."""
        return super().is_trained_enough(select_fn or (lambda player: isinstance(player, MainPlayer)))

    def mutate(self, info: Mapping[str, Any]) -> str | None:
        """Return ``info['reset_checkpoint_path']``, always."""
        path: str | None = info["reset_checkpoint_path"]
        return path


@PLAYER_REGISTRY.register("league_exploiter")
class LeagueExploiter(_LeaguePlayer):
    """A player that exploits weaknesses of the whole league, and is reset after some snapshots.

    Additional config: ``mutate_prob``, the probability of a reset; higher values give more diverse exploiters. Its
    branch is ``pfsp``.

    Raises:
        InvalidArgumentError: ``mutate_prob`` is outside of [0, 1].
    """

    _name = "LeagueExploiter"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._mutate_prob = float(self._cfg["mutate_prob"])
        if not 0 <= self._mutate_prob <= 1:
            raise InvalidArgumentError(f"mutate_prob={self._mutate_prob} must be in [0, 1]")

    def mutate(self, info: Mapping[str, Any]) -> str | None:
        """Return ``info['reset_checkpoint_path']`` with probability ``mutate_prob``."""
        path: str | None = info["reset_checkpoint_path"] if np.random.uniform() < self._mutate_prob else None
        return path
