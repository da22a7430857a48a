"""Ratings of players."""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple


class PlayerRating(NamedTuple):
    """A belief about the skill of a player: normal with mean ``mu`` and standard deviation ``sigma``."""

    mu: float
    sigma: float
    elo: float = 0.0

    @property
    def exposure(self) -> float:
        """A skill that the player has almost surely: ``mu - 3 * sigma``."""
        return self.mu - 3 * self.sigma


class EloCalculator:
    """Elo ratings; see Elo, "The Rating of Chessplayers" (1978)."""

    @staticmethod
    def get_new_rating(
        rating_a: float, rating_b: float, result: str, k_factor: float = 32.0, beta: float = 200.0
    ) -> tuple[float, float]:
        """Ratings after a game.

        Args:
            rating_a, rating_b: before the game.
            result: ``wins``, ``draws`` or ``losses``, from the view of the first.
            k_factor: how much one game changes at most.
            beta: half the difference at which the better one wins 10 of 11 games.

        Raises:
            KeyError: unknown result.
        """
        expected = 1.0 / (1.0 + 10.0 ** ((rating_b - rating_a) / (2.0 * beta)))
        change = k_factor * ({"wins": 1.0, "draws": 0.5, "losses": 0.0}[result] - expected)
        return rating_a + change, rating_b - change


class LeagueMetricEnv:
    """TrueSkill for games of one against one; see Herbrich et al., "TrueSkill: A Bayesian Skill Rating System"
    (NIPS 2006). With two players the message passing ends after one step and has the closed form used here.

    Args:
        mu, sigma: belief about a new player.
        beta: standard deviation of the performance in one game.
        tau: how much skill drifts between games.
        draw_probability: of two players of equal skill.
        elo_init: Elo rating of a new player.
        elo_beta: of :class:`EloCalculator`.
    """

    def __init__(
        self,
        mu: float = 0.0,
        sigma: float = 25 / 3,
        beta: float = 25 / 6,
        tau: float = 0.0,
        draw_probability: float = 0.02,
        elo_init: float = 1200.0,
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

    def create_rating(self, mu: float | None = None, sigma: float | None = None) -> PlayerRating:
        """Belief about a new player."""
        return PlayerRating(self.mu if mu is None else mu, self.sigma if sigma is None else sigma, self._elo_init)

    def rate_1vs1(
        self, home: PlayerRating, away: PlayerRating, result: "str | Sequence[str]" = "wins"
    ) -> tuple[PlayerRating, PlayerRating]:
        """Beliefs after one game or several, each ``wins``, ``draws`` or ``losses`` from the view of ``home``."""
        for one in [result] if isinstance(result, str) else result:
            home, away = self._rate(home, away, one)
        return home, away

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
        """From a config."""
        return cls(**{key: cfg[key] for key in ("mu", "sigma", "beta", "tau", "draw_probability") if key in cfg})


def _shrunk(variance: float, c: float, w: float) -> float:
    """Standard deviation after a game."""
    return math.sqrt(variance * max(1e-12, 1 - variance / c**2 * w))


def _corrections(t: float, margin: float, draw: bool) -> tuple[float, float]:
    """The additive and multiplicative corrections of mean and variance (v and w of the paper)."""
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
