"""Normalisation of one column by its empirical distribution, and groups of ranks."""

from __future__ import annotations

import logging

import numpy as np
import torch.distributed as dist

log = logging.getLogger(__name__)

_TOLERANCE = 1e-4


def atleast_2d(x: np.ndarray) -> np.ndarray:
    """Return ``[N]`` as ``[N, 1]``; arrays with more axes are unchanged."""
    return x[:, None] if x.ndim < 2 else x


def empirical_cdf(sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct values, and the share of values up to each."""
    quantiles, counts = np.unique(sample, return_counts=True)
    shares: np.ndarray = np.cumsum(counts) / np.size(sample)
    return quantiles, shares


class CDFNormalizer1d:
    """Map values ``[N]`` to [-1, 1] by their empirical distribution; constant values are unchanged."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = np.asarray(X, dtype=np.float32)
        self.constant = bool(self.X.max() == self.X.min())
        self.quantiles, self.probs = empirical_cdf(self.X)

    def normalize(self, x: np.ndarray) -> np.ndarray:
        """Return ``2 F(x) - 1``, with ``x`` clipped to the range of the values."""
        if self.constant:
            return x
        shares: np.ndarray = 2 * np.interp(x, self.quantiles, self.probs) - 1
        return shares

    def unnormalize(self, x: np.ndarray, eps: float = _TOLERANCE) -> np.ndarray:
        """Return the inverse of :meth:`normalize`, with ``x`` clipped to [-1, 1]; beyond ``eps`` with a warning."""
        if self.constant:
            return x
        if np.min(x) < -1 - eps or np.max(x) > 1 + eps:
            log.warning("values outside of [-1, 1] are clipped: %s to %s", np.min(x), np.max(x))
        values: np.ndarray = np.interp((np.clip(x, -1, 1) + 1) / 2, self.probs, self.quantiles)
        return values


def simple_group_split(world_size: int, rank: int, num_groups: int) -> dist.ProcessGroup | None:
    """Create groups of consecutive ranks and return the group of ``rank``; None if a single group contains all ranks.

    All ranks must call it.

    Raises:
        AssertionError: The groups would differ in size.
    """
    if world_size % num_groups:
        raise AssertionError(f"{world_size} ranks do not make {num_groups} groups of one size")
    if num_groups == 1:
        return None
    size = world_size // num_groups
    groups: list[dist.ProcessGroup] = [
        dist.new_group(list(range(first, first + size))) for first in range(0, world_size, size)
    ]
    return groups[rank // size]


def get_group(group_size: int) -> dist.ProcessGroup | None:
    """Return the group of ``group_size`` consecutive ranks to which this process belongs."""
    world_size = dist.get_world_size() if dist.is_initialized() else 1
    if world_size % group_size:
        raise AssertionError(f"{world_size} ranks do not make groups of {group_size}")
    rank = dist.get_rank() if dist.is_initialized() else 0
    return simple_group_split(world_size, rank, world_size // group_size)
