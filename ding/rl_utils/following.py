"""Successor rows, in data sets and in segments of collected steps."""

from __future__ import annotations

import numpy as np


def following_in_segments(num_rows: int, lengths: np.ndarray | None) -> np.ndarray:
    """Return the successor of each row, int64 ``[N]``; -1 at the end of a segment.

    Args:
        lengths: lengths of the segments, int64 ``[S]``; ``None``: all rows are one.
    """
    following = np.arange(1, num_rows + 1)
    ends = np.array([num_rows]) if lengths is None else np.cumsum(lengths)
    following[ends[ends > 0] - 1] = -1
    return following


def returns_along(
    reward: np.ndarray, done: np.ndarray, following: np.ndarray, gamma: float, floor: float
) -> np.ndarray:
    """Return the discounted return from each row on, float64 ``[N]``.

    It is exact for complete episodes. Where an episode is cut, by a time limit or the end of the data, the remaining
    return counts as ``floor``; if ``floor`` is a lower bound of all returns, so is the result.

    Args:
        reward, done: ``[N]``; ``done`` is True where an episode ended, but not at a time limit.
        following: Successor of each row, int64 ``[N]``, at a later position; -1 for none.
        gamma: Discount factor per step, typically 0.95 to 0.999.
        floor: Return assumed after a cut.
    """
    goes_on = (following >= 0) & ~done
    total = reward.astype(np.float64) + np.where(goes_on | done, 0.0, gamma * floor)
    ahead, discount = np.where(goes_on, following, -1), np.full(len(total), gamma)
    rows = np.flatnonzero(goes_on)
    # Each iteration doubles the number of summed steps.
    while len(rows):
        then = ahead[rows]
        added = discount[rows] * total[then]
        further, factor = ahead[then], discount[rows] * discount[then]
        total[rows] += added
        ahead[rows], discount[rows] = further, factor
        rows = rows[further >= 0]
    return total
