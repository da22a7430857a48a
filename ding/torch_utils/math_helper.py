"""Statistics on tensors."""

import torch


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
        raise ValueError(f"cov expects 1 or 2 dimensions, got shape {tuple(x.shape)}")
    samples = x.reshape(-1, 1) if x.dim() < 2 else (x.t() if rowvar else x)
    correction = (0 if bias else 1) if ddof is None else ddof
    if aweights is None:
        divisor: torch.Tensor | float = samples.shape[0] - correction
        centred = samples - samples.mean(0)
        weighted = centred
    else:
        weights = torch.as_tensor(aweights, dtype=samples.dtype, device=samples.device).reshape(-1, 1)
        total = weights.sum()
        centred = samples - (weights * samples).sum(0) / total
        weighted = weights * centred
        divisor = total - correction * (weights**2).sum() / total
    return (weighted.t() @ centred / divisor).squeeze()
