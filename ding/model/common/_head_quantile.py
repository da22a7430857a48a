"""Quantile heads at random fractions (IQN) or fractions proposed by a network (FQF)."""

from __future__ import annotations

import math

import torch
from torch import nn

from ding.model.common._head_discrete import RELU
from ding.model.common._head_layers import layer_stack
from ding.rl_utils.beta_function import beta_function_map


class QuantileHead(nn.Module):
    """Quantiles of the return per action at random fractions (IQN, arXiv:1806.06923).

    State: ``Q.0`` hidden layers, ``Q.1.0`` output layer, ``iqn_fc`` the embedding of fractions.

    Arguments:
        hidden_size: width of the input and of the hidden layers.
        output_size: number of actions.
        num_quantiles: Number of fractions per row, typically 8 to 64; more reduce the variance and cost time.
        quantile_embedding_size: Number of cosines that embed a fraction, typically 64.
        beta_function_type: risk measure that distorts the fractions of ``logit``: ``uniform``, ``CPW``, ``CVaR``,
            ``Pow``.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        num_quantiles: int = 32,
        quantile_embedding_size: int = 128,
        beta_function_type: str = "uniform",
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        noise: bool = False,
    ) -> None:
        super().__init__()
        if beta_function_type not in beta_function_map:
            known = sorted(beta_function_map)
            raise KeyError(f"beta_function_type must be one of {known}, got {beta_function_type!r}")
        self.Q = layer_stack(hidden_size, hidden_size, output_size, layer_num, activation, norm_type, noise)
        self.num_quantiles = num_quantiles
        self.quantile_embedding_size = quantile_embedding_size
        self.output_size = output_size
        self.iqn_fc = nn.Linear(quantile_embedding_size, hidden_size)
        self.beta_function = beta_function_map[beta_function_type]

    def quantile_net(self, quantiles: torch.Tensor) -> torch.Tensor:
        """Embed fractions ``[K, 1]`` as ``[K, hidden_size]``."""
        steps = torch.arange(1, self.quantile_embedding_size + 1, device=quantiles.device, dtype=quantiles.dtype)
        return torch.relu(self.iqn_fc(torch.cos(steps * math.pi * quantiles)))

    def _values(self, x: torch.Tensor, quantiles: torch.Tensor, num_quantiles: int) -> torch.Tensor:
        features = x.repeat(num_quantiles, 1) * self.quantile_net(quantiles)
        output: torch.Tensor = self.Q(features).reshape(num_quantiles, x.shape[0], self.output_size)
        return output

    def forward(self, x: torch.Tensor, num_quantiles: int | None = None) -> dict[str, torch.Tensor]:
        """Map features ``[B, hidden_size]`` to quantiles at ``M = num_quantiles`` random fractions.

        Returns:
            ``logit`` ``[B, N]``: means over fractions drawn by themselves and distorted by the risk measure.
            ``q`` ``[M, B, N]`` and ``quantiles`` ``[M * B, 1]`` (fraction-major): values and their fractions, for the
            loss.
        """
        number = self.num_quantiles if num_quantiles is None else num_quantiles
        rows = number * x.shape[0]
        q_quantiles = torch.rand(rows, 1, device=x.device, dtype=x.dtype)
        logit_quantiles = self.beta_function(torch.rand(rows, 1, device=x.device, dtype=x.dtype))
        logit = self._values(x, logit_quantiles, number).mean(dim=0)
        return {"logit": logit, "q": self._values(x, q_quantiles, number), "quantiles": q_quantiles}


class FQFHead(nn.Module):
    """Quantiles of the return per action at fractions proposed by a network (FQF, arXiv:1911.02140).

    State: ``sigma_pi`` (constants of the embedding), ``Q``, ``fqf_fc.0`` the embedding of fractions,
    ``quantiles_proposal.0``. The arguments are those of ``QuantileHead``. The proposal receives the features without
    gradient.
    """

    sigma_pi: torch.Tensor
    #: Whether ``logit`` weights quantiles by the widths of their fractions; otherwise all weights are equal.
    weighs_widths = True

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        num_quantiles: int = 32,
        quantile_embedding_size: int = 128,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        noise: bool = False,
    ) -> None:
        super().__init__()
        self.Q = layer_stack(hidden_size, hidden_size, output_size, layer_num, activation, norm_type, noise)
        self.num_quantiles = num_quantiles
        self.quantile_embedding_size = quantile_embedding_size
        self.output_size = output_size
        self.fqf_fc = nn.Sequential(nn.Linear(quantile_embedding_size, hidden_size), nn.ReLU())
        steps = torch.arange(1, quantile_embedding_size + 1, dtype=torch.float32)
        self.register_buffer("sigma_pi", (steps * math.pi).reshape(1, 1, -1))
        proposal = nn.Linear(hidden_size, num_quantiles)
        nn.init.xavier_uniform_(proposal.weight, gain=0.01)
        nn.init.zeros_(proposal.bias)
        self.quantiles_proposal = nn.Sequential(proposal, nn.LogSoftmax(dim=1))

    def _values(self, x: torch.Tensor, quantiles: torch.Tensor) -> torch.Tensor:
        """Return the values ``[B, K, N]`` at the fractions ``[B, K]``."""
        embedding = self.fqf_fc(torch.cos(quantiles.unsqueeze(-1) * self.sigma_pi))
        output: torch.Tensor = self.Q(x.unsqueeze(1) * embedding)
        return output

    def forward(self, x: torch.Tensor, num_quantiles: int | None = None) -> dict[str, torch.Tensor]:
        """Map features ``[B, hidden_size]`` to quantiles at ``M = num_quantiles`` proposed fractions.

        Returns:
            ``logit`` ``[B, N]``: the expected values, ``q`` weighted by the widths of the fractions, which get no
            gradient from it; ``q`` ``[B, M, N]``: values at ``quantiles_hats`` ``[B, M]``, the middles between
            ``quantiles`` ``[B, M + 1]`` (from 0 to 1); ``q_tau_i`` ``[B, M - 1, N]``: values at the inner
            ``quantiles``, without gradient; ``entropies`` ``[B, 1]`` of the proposal.
        """
        if num_quantiles is not None and num_quantiles != self.num_quantiles:
            raise ValueError(f"this FQFHead proposes {self.num_quantiles} fractions, got num_quantiles={num_quantiles}")
        log_widths = self.quantiles_proposal(x.detach())
        widths = log_widths.exp()
        quantiles = torch.cat([widths.new_zeros(widths.shape[0], 1), widths.cumsum(dim=1)], dim=1)
        hats = ((quantiles[:, 1:] + quantiles[:, :-1]) / 2).detach()
        q = self._values(x, hats)
        with torch.no_grad():
            q_tau_i = self._values(x, quantiles[:, 1:-1])
        return {
            "logit": (q * widths.detach().unsqueeze(-1)).sum(dim=1) if self.weighs_widths else q.mean(dim=1),
            "q": q,
            "quantiles": quantiles,
            "quantiles_hats": hats,
            "q_tau_i": q_tau_i,
            "entropies": -(log_widths * widths).sum(dim=1, keepdim=True),
        }
