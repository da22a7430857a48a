"""Transforms that compress large values."""

import torch


def value_transform(x: torch.Tensor, eps: float = 1e-2) -> torch.Tensor:
    """``sign(x) (sqrt(|x| + 1) - 1) + eps x`` (Pohlen et al. 2018, arXiv:1805.11593), elementwise."""
    return torch.sign(x) * (torch.sqrt(x.abs() + 1) - 1) + eps * x


def value_inv_transform(x: torch.Tensor, eps: float = 1e-2) -> torch.Tensor:
    """The inverse of :func:`value_transform`, elementwise."""
    root = (torch.sqrt(1 + 4 * eps * (x.abs() + 1 + eps)) - 1) / (2 * eps)
    return torch.sign(x) * (root.square() - 1)


def symlog(x: torch.Tensor) -> torch.Tensor:
    """``sign(x) ln(|x| + 1)`` (Hafner et al. 2023, arXiv:2301.04104), elementwise."""
    return torch.sign(x) * torch.log1p(x.abs())


def inv_symlog(x: torch.Tensor) -> torch.Tensor:
    """The inverse of :func:`symlog`, elementwise."""
    return torch.sign(x) * torch.expm1(x.abs())
