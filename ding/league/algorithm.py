"""Choose opponents in a league from win rates."""

import numpy as np

from ding.utils.errors import InvalidArgumentError

_WEIGHTINGS = ("squared", "variance")


def pfsp(win_rates: np.ndarray, weighting: str) -> np.ndarray:
    """Return the probabilities of prioritised fictitious self-play.

    See Vinyals et al., "Grandmaster level in StarCraft II using multi-agent reinforcement learning" (Nature 2019).

    Args:
        win_rates: ``[N]``, of the player against each opponent, N >= 1.
        weighting: ``squared`` weights by ``(1 - w) ** 2``, which prefers strong opponents; ``variance`` by ``w * (1 -
            w)``, which prefers equal ones.

    Returns:
        float64 ``[N]`` with the sum 1; uniform if all weights are 0, or if no opponent was beaten yet.

    Raises:
        InvalidArgumentError: ``win_rates`` is not an array of at least one number.
        KeyError: the weighting is unknown.
    """
    if not isinstance(win_rates, np.ndarray) or win_rates.ndim != 1 or not win_rates.size:
        raise InvalidArgumentError(f"win_rates must be an array [N] with N >= 1, got {win_rates!r}")
    if weighting not in _WEIGHTINGS:
        raise KeyError(f"weighting={weighting!r} is unknown; known: {', '.join(_WEIGHTINGS)}")
    lost = 1.0 - win_rates
    weights = lost**2 if weighting == "squared" else win_rates * lost
    total = weights.sum()
    if win_rates.sum() < 1e-8 or total <= 0:
        return uniform(win_rates)
    probabilities: np.ndarray = weights / total
    return probabilities


def uniform(win_rates: np.ndarray) -> np.ndarray:
    """Return the same probability for each of ``[N]`` opponents."""
    return np.full(len(win_rates), 1.0 / len(win_rates))
