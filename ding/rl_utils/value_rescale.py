"""Transforms that compress large values."""

import torch

from ding.torch_utils.math_helper import inv_symlog as inv_symlog
from ding.torch_utils.math_helper import symlog as symlog


def value_transform(x: torch.Tensor, eps: float = 1e-2) -> torch.Tensor:
    """``sign(x) (sqrt(|x| + 1) - 1) + eps x`` (Pohlen et al. 2018, arXiv:1805.11593), elementwise."""
    return torch.sign(x) * (torch.sqrt(x.abs() + 1) - 1) + eps * x


def value_inv_transform(x: torch.Tensor, eps: float = 1e-2) -> torch.Tensor:
    """Return the inverse of :func:`value_transform`, elementwise."""
    root = (torch.sqrt(1 + 4 * eps * (x.abs() + 1 + eps)) - 1) / (2 * eps)
    return torch.sign(x) * (root.square() - 1)
