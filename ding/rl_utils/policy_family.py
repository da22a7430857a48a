"""The policy family of NGU (Badia et al. 2020, arXiv:2002.06038), from the least to the most exploratory.

Each of its ``count`` members acts in its own env, with its own weight of novelty against the env's rewards. A family of
one explores like the most exploratory member of a larger one.
"""

import math


def family_eps(count: int) -> list[float]:
    """Return the probability of a random action in each env: ``0.4^(1 + 8 i / (count - 1))``."""
    return [0.4 ** (1 + 8 * _share(i, count)) for i in range(count)]


def family_gammas(count: int) -> list[float]:
    """Return the discount of each member, from 0.997 to 0.99, evenly spaced in ``log(1 - gamma)``."""
    low, high = math.log(1 - 0.997), math.log(1 - 0.99)
    return [1 - math.exp(low + (high - low) * _share(i, count)) for i in range(count)]


def family_betas(count: int) -> list[float]:
    """Return the weight of the intrinsic reward of each member: ``0.3 sigmoid(10 (2 i - (count - 2)) / (count - 2))``.

    For two members it is the limit of that, about 0 and 0.3; for one it is 0.3.
    """
    if count == 1:
        return [0.3]
    slopes = [(2 * i - (count - 2)) / (count - 2) if count > 2 else (-1.0, math.inf)[i] for i in range(count)]
    return [0.3 / (1 + math.exp(-10 * slope)) for slope in slopes]


def _share(index: int, count: int) -> float:
    return index / (count - 1) if count > 1 else 0.0
