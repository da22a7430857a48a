"""Statistics over seeds: interquartile means, bootstrap intervals, and the probability of improvement.

The methods are those of Agarwal et al. 2021 (arXiv:2108.13264). Scores are arrays ``[..., runs, tasks]``: a task is an
env, and the runs of a task differ in their seed. All leading axes are kept.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

#: Number of bootstrap resamples, and confidence level of an interval.
DRAWS, LEVEL = 2000, 0.95
# Maximum number of values that a bootstrap holds at a time.
_CHUNK = 1 << 21

Scores = npt.NDArray[np.float64]


def interquartile_mean(scores: npt.ArrayLike) -> Scores:
    """Return the mean of the middle half of all scores, pooled over the runs of all tasks.

    A quarter of the scores, rounded down, is discarded at each end: fewer than four scores yield their mean.

    Args:
        scores: ``[..., runs, tasks]``.

    Returns:
        float64 ``[...]``.
    """
    table = np.asarray(scores, np.float64)
    flat = np.sort(table.reshape(*table.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    middle: Scores = flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)
    return middle


def probability_of_improvement(first: npt.ArrayLike, second: npt.ArrayLike) -> Scores:
    """Return the probability that a run of ``first`` scores higher than one of ``second`` on a task.

    It is the fraction of pairs of runs in which the first is higher, with ties counted as half: the Mann-Whitney U
    statistic divided by the number of pairs. Tasks have equal weights.

    Args:
        first: ``[..., runs, tasks]``.
        second: ``[..., other_runs, tasks]``.

    Returns:
        float64 ``[...]``, in [0, 1].
    """
    left = np.asarray(first, np.float64)[..., :, None, :]
    right = np.asarray(second, np.float64)[..., None, :, :]
    share: Scores = ((left > right) + 0.5 * (left == right)).mean(axis=(-3, -2, -1))
    return share


def bootstrap_interval(
    statistic: Callable[..., Scores], *samples: npt.ArrayLike, draws: int = DRAWS, level: float = LEVEL, seed: int = 0
) -> tuple[Scores, Scores]:
    """Return the ends of the stratified percentile interval of a statistic.

    In each draw the runs of each task, and of each sample, are resampled independently with replacement. The same seed
    gives the same interval. Intervals of three to five runs are too narrow: treat them as lower bounds of the
    uncertainty.

    Args:
        statistic: Maps samples ``[..., runs, tasks]`` to ``[...]``.
        samples: Arguments of the statistic; each ``[..., runs, tasks]``, with at least two runs for a non-zero width.
        draws: Number of resamples.
        level: Fraction of the draws within the interval.

    Returns:
        The lower and the upper end, each float64 ``[...]``.
    """
    tables = [np.asarray(sample, np.float64) for sample in samples]
    rng = np.random.default_rng(seed)
    rows = [rng.integers(table.shape[-2], size=(draws, *table.shape[-2:])) for table in tables]
    size = max(1, _CHUNK // max(1, sum(table.size for table in tables)))
    found = [
        # [..., draws, runs, tasks] each.
        statistic(*(table[..., part[at : at + size], np.arange(table.shape[-1])] for table, part in zip(tables, rows)))
        for at in range(0, draws, size)
    ]
    # Use the nearest draws instead of interpolating: a run that never reached the value counts as infinite.
    tails = (0.5 - level / 2, 0.5 + level / 2)
    low, high = np.quantile(np.concatenate(found, axis=-1), tails, axis=-1, method="nearest")
    return low, high
