"""Leagues: who plays against whom in self-play, and how good everyone is."""

from ding.league.base_league import BaseLeague, create_league
from ding.league.metric import EloCalculator, LeagueMetricEnv, PlayerRating
from ding.league.one_vs_one_league import OneVsOneLeague
from ding.league.payoff import BattleRecordDict, BattleSharedPayoff, create_payoff
from ding.league.player import ActivePlayer, HistoricalPlayer, Player, create_player
from ding.league.starcraft_player import NaiveSpPlayer

__all__ = [
    "ActivePlayer",
    "BaseLeague",
    "BattleRecordDict",
    "BattleSharedPayoff",
    "EloCalculator",
    "HistoricalPlayer",
    "LeagueMetricEnv",
    "NaiveSpPlayer",
    "OneVsOneLeague",
    "Player",
    "PlayerRating",
    "create_league",
    "create_payoff",
    "create_player",
]
