"""A differentiable argmax over images."""

import torch
from torch import nn


class SoftArgmax(nn.Module):
    """The expected pixel position under the softmax of a heat map."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Heat map ``[B, 1, H, W]`` to row and column, float ``[B, 2]``."""
        if x.dim() != 4 or x.shape[1] != 1:
            raise ValueError(f"SoftArgmax takes [B, 1, H, W], got {tuple(x.shape)}")
        batch, _, height, width = x.shape
        weight = x.reshape(batch, -1).softmax(dim=1).reshape(batch, height, width)
        rows = torch.arange(height, device=x.device, dtype=x.dtype)
        columns = torch.arange(width, device=x.device, dtype=x.dtype)
        return torch.stack([(weight.sum(dim=2) * rows).sum(dim=1), (weight.sum(dim=1) * columns).sum(dim=1)], dim=1)
