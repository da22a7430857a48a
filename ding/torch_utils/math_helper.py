"""Statistics on tensors, masks, and the logarithm of both signs."""

import torch

from ding.utils.errors import InvalidArgumentError


def cov(
    x: torch.Tensor,
    rowvar: bool = False,
    bias: bool = False,
    ddof: int | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Covariance matrix, as ``numpy.cov``, on any device.

    ``x``: ``[N, D]`` (one observation per row), ``[D, N]`` with ``rowvar=True``, or ``[N]``. The divisor is
    ``N - ddof``; ``ddof`` defaults to 0 with ``bias`` and to 1 without. ``aweights`` ``[N]`` weights the observations.
    Returns ``[D, D]``, or a 0-d tensor for one variable.
    """
    if x.dim() > 2:
        raise InvalidArgumentError(f"cov expects 1 or 2 dimensions, got shape {tuple(x.shape)}")
    correction = (0 if bias else 1) if ddof is None else ddof
    weights = None if aweights is None else torch.as_tensor(aweights, dtype=x.dtype, device=x.device).reshape(-1)
    return torch.cov(x if rowvar or x.dim() < 2 else x.t(), correction=correction, aweights=weights).squeeze()


def usable_mask(mask: torch.Tensor) -> torch.Tensor:
    """Return a mask of actions ``[..., N]``, 0 where one is forbidden; a row that forbids all, as that of a dead agent,
    allows all.
    """
    return torch.where((mask == 0).all(-1, keepdim=True), torch.ones_like(mask), mask)


def symlog(x: torch.Tensor) -> torch.Tensor:
    """``sign(x) ln(|x| + 1)`` (Hafner et al. 2023, arXiv:2301.04104), elementwise."""
    return torch.sign(x) * torch.log1p(x.abs())


def inv_symlog(x: torch.Tensor) -> torch.Tensor:
    """Return the inverse of :func:`symlog`, elementwise."""
    return torch.sign(x) * torch.expm1(x.abs())
