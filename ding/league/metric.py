"""Ratings of players."""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ding.utils.errors import InvalidArgumentError, UnknownKeyError
from ding.utils.names import check_choice, did_you_mean

_Lead = TypeVar("_Lead", float, np.ndarray)
# Rating of a new player, in the scale of the paper.
_MU, _SIGMA, _ELO = 25.0, 25 / 3, 1200
# Score of each result.
_RESULTS = ("wins", "draws", "losses")
_SCORES: dict[str | int, float] = {"wins": 1.0, "draws": 0.5, "losses": 0.0, 1: 1.0, 0: 0.5, -1: 0.0}


class _Rating(NamedTuple):
    mu: float
    sigma: float
    elo: float


class PlayerRating(_Rating):
    """Belief about the skill of a player: a normal distribution with mean ``mu`` and standard deviation ``sigma``.

    Args:
        mu, sigma: 25 and 25 / 3 by default.
        elo_init: the Elo rating, the attribute ``elo``; 1200 by default.
    """

    __slots__ = ()

    def __new__(
        cls, mu: float | None = None, sigma: float | None = None, elo_init: float | None = None
    ) -> "PlayerRating":
        values = (_MU if mu is None else mu, _SIGMA if sigma is None else sigma, _ELO if elo_init is None else elo_init)
        return super().__new__(cls, *values)

    @property
    def exposure(self) -> float:
        """Conservative estimate of the skill: ``mu - 3 * sigma``."""
        return self.mu - 3 * self.sigma

    def __repr__(self) -> str:
        facts = f"mu={self.mu:.3f}, sigma={self.sigma:.3f}, exposure={self.exposure:.3f}, elo={self.elo:g}"
        return f"{type(self).__module__}.{type(self).__name__}({facts})"


class EloCalculator:
    """Elo ratings; see Elo, "The Rating of Chessplayers" (1978)."""

    @staticmethod
    def get_new_rating(
        rating_a: float, rating_b: float, result: str | int, k_factor: float = 32.0, beta: float = 200.0
    ) -> tuple[int, int]:
        """Return the rounded ratings after a game.

        Args:
            rating_a, rating_b: Ratings before the game.
            result: ``wins``, ``draws`` or ``losses`` (or 1, 0, -1), from the view of the first player.
            k_factor: Maximum change by one game.
            beta: Half the rating difference at which the better player wins 10 of 11 games.

        Raises:
            InvalidArgumentError: The result is unknown.
        """
        check_choice("result", result, _SCORES, InvalidArgumentError)
        change = k_factor * (_SCORES[result] - _expected_score(rating_a - rating_b, beta))
        return round(rating_a + change), round(rating_b - change)

    @staticmethod
    def get_new_rating_array(
        rating: np.ndarray, result: np.ndarray, game_count: np.ndarray, k_factor: float = 32.0, beta: float = 200.0
    ) -> np.ndarray:
        """Return the rounded ratings of N players after games between them.

        Args:
            rating: ``[N]``, before the games.
            result: ``[N, N]``, mean result of the row's player against the column's: 1 if it won all games, -1 if it
                lost all.
            game_count: ``[N, N]``, number of games of each pair; pairs without games are ignored.

        Returns:
            int64 ``[N]``.

        Raises:
            InvalidArgumentError: A result is outside of [-1, 1].
        """
        if np.abs(result).max(initial=0) > 1:
            raise InvalidArgumentError(f"result must be the mean of 1, 0, -1 per game, got {np.abs(result).max()}")
        expected = _expected_score(rating[:, None] - rating[None, :], beta)
        gained = np.where(game_count > 0, ((result + 1) / 2 - expected) * game_count, 0.0)
        values: np.ndarray = np.round(rating + k_factor * gained.sum(axis=1)).astype(np.int64)
        return values


def _expected_score(lead: _Lead, beta: float) -> _Lead:
    """Return the expected score of a player who leads by ``lead`` Elo points (a number or an array)."""
    score: _Lead = 1.0 / (1.0 + 10.0 ** (-lead / (2.0 * beta)))
    return score


get_elo = EloCalculator.get_new_rating
get_elo_array = EloCalculator.get_new_rating_array


class LeagueMetricEnv:
    """TrueSkill for one-versus-one games; see Herbrich et al., "TrueSkill: A Bayesian Skill Rating System" (NIPS 2006).
    With two players the message passing ends after one step and has the closed form used here.

    Args:
        mu, sigma: Belief about a new player.
        beta: Standard deviation of the performance in one game; higher values make results less informative.
        tau: Drift of skill between games; higher values keep ratings changing.
        draw_probability: Probability of a draw between players of equal skill.
        backend: ignored; the ``trueskill`` package chooses its normal distribution by it.
        elo_init: Elo rating of a new player.
        elo_beta: ``beta`` of :class:`EloCalculator`.
    """

    def __init__(
        self,
        mu: float = _MU,
        sigma: float = _SIGMA,
        beta: float = _SIGMA / 2,
        tau: float = _SIGMA / 100,
        draw_probability: float = 0.1,
        backend: object = None,
        *,
        elo_init: float = _ELO,
        elo_beta: float = 200.0,
    ) -> None:
        if sigma <= 0 or beta <= 0 or not 0 < draw_probability < 1:
            raise ValueError(
                f"metric needs sigma and beta above 0 and draw_probability within (0, 1), got {sigma}, {beta} and "
                f"{draw_probability}"
            )
        self.mu, self.sigma, self.beta, self.tau = float(mu), float(sigma), float(beta), float(tau)
        self._margin = math.sqrt(2) * self.beta * NormalDist().inv_cdf((draw_probability + 1) / 2)
        self._elo_init, self._elo_beta = elo_init, elo_beta

    def create_rating(
        self, mu: float | None = None, sigma: float | None = None, elo_init: float | None = None
    ) -> PlayerRating:
        """Return the belief about a new player; None takes the configured value."""
        return PlayerRating(
            self.mu if mu is None else mu,
            self.sigma if sigma is None else sigma,
            self._elo_init if elo_init is None else elo_init,
        )

    def rate_1vs1(
        self,
        team1: PlayerRating,
        team2: PlayerRating,
        result: str | Sequence[str] | None = None,
        drawn: bool = False,
    ) -> tuple[PlayerRating, PlayerRating]:
        """Return the beliefs after one game or several.

        Args:
            result: ``wins``, ``draws`` or ``losses`` of ``team1``, or a sequence of these, one for each game.
            drawn: Whether a single game ended in a draw; without ``result`` and ``drawn``, ``team1`` has won.

        Raises:
            InvalidArgumentError: Both ``result`` and ``drawn`` are given.
            UnknownKeyError: The result is unknown.
        """
        if result and drawn:
            raise InvalidArgumentError(f"drawn=True is a result, but result={result!r} is given, too")
        home, away, result = team1, team2, result or ("draws" if drawn else "wins")
        for one in [result] if isinstance(result, str) else result:
            if one not in _RESULTS:
                raise UnknownKeyError(f"result={one!r} is unknown.{did_you_mean(one, _RESULTS)}")
            home, away = self._rate(home, away, one)
        return home, away

    def rate_1vsC(self, team1: PlayerRating, team2: PlayerRating, result: Sequence[str]) -> PlayerRating:
        """Return the belief about ``team1`` after games against an opponent with a fixed rating, such as a script."""
        for one in result:
            team1, _ = self.rate_1vs1(team1, team2, one)
        return team1

    def _rate(self, home: PlayerRating, away: PlayerRating, result: str) -> tuple[PlayerRating, PlayerRating]:
        if result == "losses":
            away, home = self._rate(away, home, "wins")
            return home, away
        elo_home, elo_away = EloCalculator.get_new_rating(home.elo, away.elo, result, beta=self._elo_beta)
        var_home, var_away = home.sigma**2 + self.tau**2, away.sigma**2 + self.tau**2
        c = math.sqrt(2 * self.beta**2 + var_home + var_away)
        v, w = _corrections((home.mu - away.mu) / c, self._margin / c, result == "draws")
        return (
            PlayerRating(home.mu + var_home / c * v, _shrunk(var_home, c, w), elo_home),
            PlayerRating(away.mu - var_away / c * v, _shrunk(var_away, c, w), elo_away),
        )

    @classmethod
    def of(cls, cfg: Mapping[str, Any]) -> "LeagueMetricEnv":
        """Create the environment from a config."""
        return cls(**{key: cfg[key] for key in ("mu", "sigma", "beta", "tau", "draw_probability") if key in cfg})


def _shrunk(variance: float, c: float, w: float) -> float:
    """Return the standard deviation after a game."""
    return math.sqrt(variance * max(1e-12, 1 - variance / c**2 * w))


def _corrections(t: float, margin: float, draw: bool) -> tuple[float, float]:
    """Return the additive and multiplicative corrections of mean and variance (v and w of the paper)."""
    if not draw:
        x = t - margin
        v = _pdf(x) / max(_cdf(x), 1e-300) if x > -30 else -x
        return v, v * (v + x)
    low, high = -margin - t, margin - t
    mass = max(_cdf(high) - _cdf(low), 1e-300)
    v = (_pdf(low) - _pdf(high)) / mass
    return v, v * v + (high * _pdf(high) - low * _pdf(low)) / mass


def _pdf(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
