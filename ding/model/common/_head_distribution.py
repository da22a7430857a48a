"""Heads of a distribution of returns per action: categorical (C51, Rainbow) and quantile regression (QR-DQN)."""

from __future__ import annotations

import torch
from torch import nn

from ding.model.common._head_discrete import RELU
from ding.model.common._head_layers import layer_stack


class _CategoricalHead(nn.Module):
    """Common base of the categorical heads: the support, and the conversion of atom logits to the output."""

    support: torch.Tensor

    def __init__(self, output_size: int, n_atom: int, v_min: float, v_max: float, eps: float) -> None:
        super().__init__()
        if n_atom < 2 or not v_min < v_max:
            raise ValueError(
                f"a categorical head needs n_atom >= 2 and v_min < v_max, got {n_atom=}, {v_min=}, {v_max=}"
            )
        self.output_size = output_size
        self.n_atom = n_atom
        self.v_min = v_min
        self.v_max = v_max
        self.eps = eps
        # Not in the state dict: the constructor arguments say all about it.
        self.register_buffer("support", torch.linspace(v_min, v_max, n_atom), persistent=False)

    def _output(self, atoms: torch.Tensor) -> dict[str, torch.Tensor]:
        # eps keeps every atom positive for the logarithm of the loss; the sum stays 1.
        distribution = (atoms.softmax(dim=-1) + self.eps) / (1 + self.n_atom * self.eps)
        logit = (distribution * self.support).sum(dim=-1)
        return {"logit": logit, "distribution": distribution}


class DistributionHead(_CategoricalHead):
    """A categorical distribution of the return per action (C51, arXiv:1707.06887).

    State: ``Q.0`` hidden layers, ``Q.1.0`` output layer of ``output_size * n_atom``.

    Arguments:
        hidden_size: width of the input and of the hidden layers.
        output_size: number of actions.
        n_atom, v_min, v_max: Number of atoms, typically 51, and the range of returns they span, which should cover all
            returns.
        eps: Minimum weight of an atom before normalisation.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        n_atom: int = 51,
        v_min: float = -10,
        v_max: float = 10,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        noise: bool = False,
        eps: float = 1e-6,
    ) -> None:
        super().__init__(output_size, n_atom, v_min, v_max, eps)
        self.Q = layer_stack(hidden_size, hidden_size, output_size * n_atom, layer_num, activation, norm_type, noise)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[B, hidden_size]`` to ``logit`` (means) ``[B, N]`` and ``distribution`` ``[B, N, n_atom]``."""
        q = self.Q(x)
        return self._output(q.reshape(*q.shape[:-1], self.output_size, self.n_atom))


class RainbowHead(_CategoricalHead):
    """``DistributionHead`` with noisy layers and a dueling value per atom (Rainbow, arXiv:1710.02298).

    State: ``A`` (``output_size * n_atom``) and ``Q`` (``n_atom``), each with hidden layers ``0`` and output layer
    ``1.0``.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        n_atom: int = 51,
        v_min: float = -10,
        v_max: float = 10,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        noise: bool = True,
        eps: float = 1e-6,
    ) -> None:
        super().__init__(output_size, n_atom, v_min, v_max, eps)
        self.A = layer_stack(hidden_size, hidden_size, output_size * n_atom, layer_num, activation, norm_type, noise)
        self.Q = layer_stack(hidden_size, hidden_size, n_atom, layer_num, activation, norm_type, noise)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[B, hidden_size]`` to ``logit`` (means) ``[B, N]`` and ``distribution`` ``[B, N, n_atom]``."""
        a, q = self.A(x), self.Q(x)
        a = a.reshape(*a.shape[:-1], self.output_size, self.n_atom)
        return self._output(q.unsqueeze(-2) + a - a.mean(dim=-2, keepdim=True))


class QRDQNHead(nn.Module):
    """Quantiles of the return per action at fixed fractions (QR-DQN, arXiv:1710.10044).

    State: ``Q.0`` hidden layers, ``Q.1.0`` output layer of ``output_size * num_quantiles``.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        num_quantiles: int = 32,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        noise: bool = False,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.num_quantiles = num_quantiles
        self.Q = layer_stack(
            hidden_size, hidden_size, output_size * num_quantiles, layer_num, activation, norm_type, noise
        )

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[B, hidden_size]`` to quantiles.

        Returns:
            ``logit`` ``[B, N]`` (means), ``q`` ``[B, N, num_quantiles]``, ``tau`` ``[B, num_quantiles, 1]`` (the
            middles of equal fractions).
        """
        q = self.Q(x)
        q = q.reshape(*q.shape[:-1], self.output_size, self.num_quantiles)
        steps = torch.arange(self.num_quantiles, device=q.device, dtype=q.dtype)
        tau = ((steps + 0.5) / self.num_quantiles).reshape(1, -1, 1).expand(q.shape[0], -1, -1)
        return {"logit": q.mean(dim=-1), "q": q, "tau": tau}
