"""Leagues: matchmaking for self-play, and ratings of players."""

# Registers players and leagues.
from ding.league import one_vs_one_league, player, starcraft_player  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
