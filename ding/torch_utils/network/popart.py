"""A value layer that keeps its outputs while the scale of its targets changes (PopArt, arXiv:1602.07714,
arXiv:1809.04474).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.utils.errors import InvalidArgumentError


class PopArt(nn.Module):
    """Linear layer for normalised values with running statistics of the targets.

    State: ``weight`` ``[out, in]``, ``bias`` ``[out]`` and the buffers ``mu``, ``sigma``, ``v`` ``[out]`` (mean,
    deviation, second moment).

    Arguments:
        beta: step of the running statistics, in ``(0, 1]``.
    """

    mu: torch.Tensor
    sigma: torch.Tensor
    v: torch.Tensor

    def __init__(
        self, input_features: int | None = None, output_features: int | None = None, beta: float = 0.5
    ) -> None:
        super().__init__()
        if input_features is None or output_features is None:
            raise InvalidArgumentError(
                f"PopArt needs its sizes, got input_features={input_features}, output_features={output_features}"
            )
        self.beta = beta
        self.input_features = input_features
        self.output_features = output_features
        self.weight = nn.Parameter(torch.empty(output_features, input_features))
        self.bias = nn.Parameter(torch.empty(output_features))
        self.register_buffer("mu", torch.zeros(output_features))
        self.register_buffer("sigma", torch.ones(output_features))
        self.register_buffer("v", torch.ones(output_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Kaiming-uniform weight, bias uniform in ``+-1/sqrt(in)``."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        bound = 1.0 / math.sqrt(self.input_features)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map ``[B, in]`` to the normalised ``pred`` and the ``unnormalized_pred``, each ``[B, out]`` with a last
        dimension of 1 dropped.
        """
        normalized = F.linear(x, self.weight, self.bias)
        with torch.no_grad():
            output = normalized * self.sigma + self.mu
        return {"pred": normalized.squeeze(-1), "unnormalized_pred": output.squeeze(-1)}

    @torch.no_grad()
    def update_parameters(self, value: torch.Tensor) -> dict[str, Any]:
        """Move the statistics towards the targets ``value`` ``[B]`` or ``[B, out]`` and rescale the layer, so that
        its outputs stay the same.

        Returns:
            ``new_mean`` and ``new_std``, each ``[out]``.
        """
        flat = value.reshape(value.shape[0], -1).to(self.mu.dtype)
        old_mu, old_sigma = self.mu.clone(), self.sigma.clone()
        mu = (1 - self.beta) * old_mu + self.beta * flat.mean(dim=0)
        v = (1 - self.beta) * self.v + self.beta * (flat**2).mean(dim=0)
        sigma = (v - mu**2).clamp(min=0).sqrt().clamp(min=1e-4, max=1e6)
        self.mu.copy_(mu)
        self.v.copy_(v)
        self.sigma.copy_(sigma)
        self.weight.mul_((old_sigma / sigma).unsqueeze(-1))
        self.bias.copy_((old_sigma * self.bias + old_mu - mu) / sigma)
        return {"new_mean": self.mu.clone(), "new_std": self.sigma.clone()}
