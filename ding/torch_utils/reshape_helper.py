"""Merging, splitting and repeating batch dimensions."""

import math

import torch


def fold_batch(x: torch.Tensor, nonbatch_ndims: int = 1) -> tuple[torch.Tensor, torch.Size]:
    """Merge all but the last ``nonbatch_ndims`` dimensions: ``[T, B, D] -> [T * B, D]`` and ``(T, B)``.

    With ``nonbatch_ndims=0`` the result is 1-D. Raises ``ValueError`` when ``x`` has fewer dimensions.
    """
    if not 0 <= nonbatch_ndims <= x.dim():
        raise ValueError(f"nonbatch_ndims must lie in [0, {x.dim()}] for shape {tuple(x.shape)}, got {nonbatch_ndims}")
    split = x.dim() - nonbatch_ndims
    batch_dims = x.shape[:split]
    return x.reshape(math.prod(batch_dims), *x.shape[split:]), batch_dims


def unfold_batch(x: torch.Tensor, batch_dims: torch.Size | tuple[int, ...]) -> torch.Tensor:
    """Undo :func:`fold_batch`: ``[T * B, D]`` and ``(T, B)`` give ``[T, B, D]``."""
    return x.reshape(*batch_dims, *x.shape[1:])


def unsqueeze_repeat(x: torch.Tensor, repeat_times: int, unsqueeze_dim: int = 0) -> torch.Tensor:
    """Add a dimension at ``unsqueeze_dim`` and repeat along it: ``[B, D] -> [repeat_times, B, D]`` for dim 0.

    Raises ``ValueError`` when the dimension lies outside ``[-1, x.dim()]``.
    """
    if not -1 <= unsqueeze_dim <= x.dim():
        raise ValueError(f"unsqueeze_dim must lie in [-1, {x.dim()}] for shape {tuple(x.shape)}, got {unsqueeze_dim}")
    x = x.unsqueeze(unsqueeze_dim)
    repeats = [1] * x.dim()
    repeats[unsqueeze_dim] = repeat_times
    return x.repeat(repeats)
