"""Linear layers with learned noise (NoisyNet, arXiv:1706.10295)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from ding.torch_utils.network._blocks import layer_parts


class NoiseLinearLayer(nn.Module):
    """Linear layer whose weights are ``mu + sigma * eps`` with factorised Gaussian ``eps``.

    ``enable_noise`` (False at first) switches the noise on; without it the layer uses ``mu``, in training mode too.
    ``reset_noise`` draws new ``eps``. State: ``weight_mu``, ``weight_sigma`` ``[out, in]``, ``bias_mu``,
    ``bias_sigma`` ``[out]`` and the buffers ``weight_eps``, ``bias_eps``.

    Arguments:
        sigma0: scale of the initial ``sigma``: ``sigma0 / sqrt(in)`` for weights, ``sigma0 / sqrt(out)`` for biases.
    """

    weight_mu: nn.Parameter
    weight_sigma: nn.Parameter
    weight_eps: torch.Tensor
    bias_mu: nn.Parameter
    bias_sigma: nn.Parameter
    bias_eps: torch.Tensor

    def __init__(self, in_channels: int, out_channels: int, sigma0: float = 0.4) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.sigma0 = sigma0
        self.enable_noise = False
        shapes = {"weight": (out_channels, in_channels), "bias": (out_channels,)}
        for name, shape in shapes.items():
            for part in ("mu", "sigma"):
                self.register_parameter(f"{name}_{part}", nn.Parameter(torch.empty(shape)))
            self.register_buffer(f"{name}_eps", torch.empty(shape))
        self.reset_parameters()
        self.reset_noise()

    def _draw(self, size: int) -> torch.Tensor:
        noise = torch.randn(size, device=self.weight_mu.device, dtype=self.weight_mu.dtype)
        return noise.sign() * noise.abs().sqrt()

    @torch.no_grad()
    def reset_noise(self) -> None:
        """Draw new ``eps``: the outer product of one noise vector per side."""
        in_noise = self._draw(self.in_channels)
        out_noise = self._draw(self.out_channels)
        self.weight_eps.copy_(torch.outer(out_noise, in_noise))
        self.bias_eps.copy_(out_noise)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new ``mu`` (uniform) and set ``sigma`` to its initial constant."""
        bound = 1.0 / math.sqrt(self.in_channels)
        self.weight_mu.uniform_(-bound, bound)
        self.weight_sigma.fill_(self.sigma0 / math.sqrt(self.in_channels))
        self.bias_mu.uniform_(-bound, bound)
        self.bias_sigma.fill_(self.sigma0 / math.sqrt(self.out_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., in]`` to ``[..., out]``."""
        if not self.enable_noise:
            return F.linear(x, self.weight_mu, self.bias_mu)
        weight = self.weight_mu + self.weight_sigma * self.weight_eps
        return F.linear(x, weight, self.bias_mu + self.bias_sigma * self.bias_eps)

    def extra_repr(self) -> str:
        """Sizes for ``repr``."""
        return f"in_channels={self.in_channels}, out_channels={self.out_channels}, sigma0={self.sigma0}"


def noise_block(
    in_channels: int,
    out_channels: int,
    activation: nn.Module | None = None,
    norm_type: str | None = None,
    use_dropout: bool = False,
    dropout_probability: float = 0.5,
    sigma0: float = 0.4,
) -> nn.Sequential:
    """``fc_block`` with a ``NoiseLinearLayer`` for the linear layer."""
    layer = NoiseLinearLayer(in_channels, out_channels, sigma0=sigma0)
    return nn.Sequential(*layer_parts(layer, out_channels, activation, norm_type, use_dropout, dropout_probability))
