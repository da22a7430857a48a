"""Leagues: who plays against whom in self-play, and how good everyone is."""

# They register players and leagues.
from ding.league import one_vs_one_league, player, starcraft_player  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
