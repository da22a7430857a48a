"""The player of the one-vs-one league."""

import numpy as np

from ding.league.player import ActivePlayer, HistoricalPlayer, Player
from ding.utils import PLAYER_REGISTRY


@PLAYER_REGISTRY.register("naive_sp_player")
class NaiveSpPlayer(ActivePlayer):
    """Plays itself (``sp``), or its former selves, the harder ones more often (``pfsp``)."""

    _name = "NaiveSpPlayer"

    def _pfsp_branch(self) -> Player:
        """A historical player, with a probability proportional to ``(1 - win rate) ** 2``; itself if there is none."""
        rivals = self._get_players(lambda player: isinstance(player, HistoricalPlayer))
        if not rivals:
            return self
        win_rates = np.array(self.payoff[self.player_id, [player.player_id for player in rivals]])
        weights = (1.0 - win_rates) ** 2
        total = weights.sum()
        return self._get_opponent(rivals, weights / total if total > 0 else None)

    def _sp_branch(self) -> Player:
        return self
