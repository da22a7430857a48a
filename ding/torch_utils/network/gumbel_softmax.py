"""Differentiable samples of a categorical distribution (arXiv:1611.01144)."""

import torch
import torch.nn.functional as F
from torch import nn


class GumbelSoftmax(nn.Module):
    """Gumbel-softmax samples of logits."""

    def forward(self, x: torch.Tensor, temperature: float = 1.0, hard: bool = False) -> torch.Tensor:
        """Logits ``[..., N]`` to relaxed (or, with ``hard``, exact one-hot) samples ``[..., N]``; gradients are those
        of the relaxed sample.
        """
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        return F.gumbel_softmax(x, tau=temperature, hard=hard, dim=-1)
