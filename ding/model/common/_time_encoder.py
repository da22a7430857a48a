"""Random Fourier features of a time."""

from __future__ import annotations

import math

import torch
from torch import nn


class GaussianFourierProjectionTimeEncoder(nn.Module):
    """Sines and cosines of a time at fixed random frequencies (arXiv:2006.10739).

    State: ``W`` ``[embed_dim // 2]``, drawn once and never trained.

    Arguments:
        embed_dim: even number of features.
        scale: deviation of the frequencies.
    """

    def __init__(self, embed_dim: int, scale: float = 30.0) -> None:
        super().__init__()
        if embed_dim % 2:
            raise ValueError(f"embed_dim must be even, got {embed_dim}")
        self.W = nn.Parameter(torch.randn(embed_dim // 2) * scale, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Times ``[...]`` to features ``[..., embed_dim]``."""
        phase = x.unsqueeze(-1) * self.W * (2 * math.pi)
        return torch.cat([phase.sin(), phase.cos()], dim=-1)
