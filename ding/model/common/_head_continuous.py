"""Heads of continuous outputs: actions, values, parameters of a normal distribution."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common._head_discrete import RELU
from ding.model.common.shapes import as_shape
from ding.torch_utils.network.nn_module import MLP, conv1d_block, sequential_pack
from ding.torch_utils.network.normalization import BatchRenorm, Dropout
from ding.torch_utils.network.popart import PopArt

_SIGMA_TYPES = ("fixed", "independent", "conditioned", "happo")
LOG_SIGMA_RANGE = (-20.0, 2.0)


def _width(output_size: int | Sequence[int]) -> int:
    size = as_shape(output_size, "output_size")
    if not isinstance(size, int):
        raise ValueError(f"output_size must have one axis, got {output_size!r}")
    return size


class RegressionHead(nn.Module):
    """Regression head: one number per output.

    State: ``main`` hidden layers, ``last`` output layer.

    Arguments:
        input_size: Number of input features.
        output_size: number of outputs.
        layer_num: number of hidden layers.
        final_tanh: Whether to squash the outputs into ``[-1, 1]``.
        hidden_size: Width of the hidden layers; ``input_size`` by default.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int | Sequence[int],
        layer_num: int = 2,
        final_tanh: bool = False,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        hidden_size: int | None = None,
    ) -> None:
        super().__init__()
        hidden = input_size if hidden_size is None else hidden_size
        self.main = MLP(input_size, hidden, hidden, layer_num, activation=activation, norm_type=norm_type)
        self.last = nn.Linear(hidden, _width(output_size))
        self.final_tanh = final_tanh
        if final_tanh:
            self.tanh = nn.Tanh()

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[B, input_size]`` to ``pred`` ``[B, output_size]``, or ``[B]`` for a single output."""
        x = self.last(self.main(x))
        if self.final_tanh:
            x = self.tanh(x)
        return {"pred": x.squeeze(-1) if x.shape[-1] == 1 and x.dim() > 1 else x}


class ReparameterizationHead(nn.Module):
    """Mean and standard deviation of a normal distribution per output.

    State: ``main`` hidden layers, ``mu``, and ``log_sigma_param`` ``[1, output_size]`` or ``log_sigma_layer``.

    Arguments:
        sigma_type: ``fixed`` (the constant ``fixed_sigma_value``), ``independent`` (a parameter), ``conditioned`` (a
            layer over the features; log sigma in ``[-20, 2]``) or ``happo`` (half the sigmoid of a parameter).
        bound_type: ``tanh`` to squash ``mu`` into ``[-1, 1]``, or None.
        hidden_size: Width of the hidden layers; ``input_size`` by default.
    """

    sigma: torch.Tensor

    def __init__(
        self,
        input_size: int,
        output_size: int | Sequence[int],
        layer_num: int = 2,
        sigma_type: str | None = None,
        fixed_sigma_value: float = 1.0,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        bound_type: str | None = None,
        hidden_size: int | None = None,
    ) -> None:
        super().__init__()
        if sigma_type not in _SIGMA_TYPES:
            raise ValueError(f"sigma_type must be one of {_SIGMA_TYPES}, got {sigma_type!r}")
        if bound_type not in ("tanh", None):
            raise ValueError(f"bound_type must be 'tanh' or None, got {bound_type!r}")
        hidden, size = input_size if hidden_size is None else hidden_size, _width(output_size)
        self.sigma_type = sigma_type
        self.bound_type = bound_type
        self.main = MLP(input_size, hidden, hidden, layer_num, activation=activation, norm_type=norm_type)
        self.mu = nn.Linear(hidden, size)
        if sigma_type == "fixed":
            self.register_buffer("sigma", torch.full((1, size), float(fixed_sigma_value)), persistent=False)
        elif sigma_type == "independent":
            self.log_sigma_param = nn.Parameter(torch.zeros(1, size))
        elif sigma_type == "conditioned":
            self.log_sigma_layer = nn.Linear(hidden, size)
        else:
            self.log_sigma_param = nn.Parameter(torch.ones(1, size))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[B, input_size]`` to ``mu`` and ``sigma``, each ``[B, output_size]``."""
        x = self.main(x)
        mu = self.mu(x)
        if self.bound_type == "tanh":
            mu = torch.tanh(mu)
        if self.sigma_type == "fixed":
            sigma = self.sigma
        elif self.sigma_type == "independent":
            sigma = self.log_sigma_param.exp()
        elif self.sigma_type == "conditioned":
            sigma = self.log_sigma_layer(x).clamp(*LOG_SIGMA_RANGE).exp()
        else:
            sigma = 0.5 * torch.sigmoid(self.log_sigma_param)
        return {"mu": mu, "sigma": sigma.expand_as(mu)}


class PopArtVHead(nn.Module):
    """A value head whose output layer is ``PopArt``.

    State: ``popart`` and the same storage again as ``Q.1``; hidden layers ``Q.0``.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.popart = PopArt(hidden_size, output_size)
        hidden = MLP(hidden_size, hidden_size, hidden_size, layer_num, activation=activation, norm_type=norm_type)
        self.Q = nn.Sequential(hidden, self.popart)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[B, hidden_size]`` to ``pred`` (normalised) and ``unnormalized_pred``, each ``[B]`` for one
        output.
        """
        output: dict[str, torch.Tensor] = self.Q(x)
        return output


class EnsembleHead(nn.Module):
    """Ensemble of independent networks of equal shape, with one batched product per layer (EDAC, arXiv:2110.01548).

    State: ``pred.i.0`` with weight ``[ensemble_num * out, in, 1]``, that of a grouped convolution. The following
    modules of a layer are ``pred.i.1`` and so on; ``input_norm`` if there is one.

    Arguments:
        input_size, hidden_size, output_size: widths of one network.
        layer_num: number of hidden layers.
        ensemble_num: number of networks.
        norm_type: normalisation between a hidden layer and its activation: ``LN`` over the features of each network.
        dropout: probability of dropout between a hidden layer and its normalisation (DroQ, arXiv:2110.02034).
        batch_norm: makes a normalisation of the given number of channels, one for the input and one behind each
            activation (CrossQ, arXiv:1902.05605).
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int,
        layer_num: int,
        ensemble_num: int,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        dropout: float = 0.0,
        batch_norm: Callable[[int], nn.Module] | None = None,
    ) -> None:
        super().__init__()
        widths = [input_size, *[hidden_size] * layer_num]
        self._members = ensemble_num
        self.input_norm = None if batch_norm is None else batch_norm(input_size * ensemble_num)
        layers = []
        for width_in, width_out in itertools.pairwise(widths):
            channels = width_out * ensemble_num
            linear, *norm = conv1d_block(
                width_in * ensemble_num, channels, kernel_size=1, groups=ensemble_num,
                norm_type=None if norm_type == "LN" else norm_type,
            )  # fmt: skip
            if norm_type == "LN":
                norm = [MemberNorm(ensemble_num, width_out)]
            layers.append(
                sequential_pack(
                    [
                        linear,
                        *([Dropout(dropout)] if dropout else []),
                        *norm,
                        *([] if activation is None else [activation]),
                        *([] if batch_norm is None else [batch_norm(channels)]),
                    ]
                )
            )
        layers.append(conv1d_block(widths[-1] * ensemble_num, output_size * ensemble_num, 1, groups=ensemble_num))
        self.pred = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map inputs ``[B, ensemble_num * input_size, 1]``, or ``[B, input_size]`` that all networks see, to ``pred``
        ``[B, ensemble_num * output_size]``.
        """
        if self.input_norm is not None:
            x = self.input_norm(x.repeat(1, self._members) if x.ndim == 2 else x)
        if x.ndim > 2 or self.input_norm is not None:
            x = _by_member(x, self._members)
        for block in self.pred:
            layers: list[Any] = list(block)  # type: ignore[call-overload]
            x = _each_member(layers[0], x)
            for layer in layers[1:]:
                x = _by_member(layer(_channels(x)), self._members) if isinstance(layer, _OF_CHANNELS) else layer(x)
        return {"pred": _channels(x).squeeze(-1)}


class MemberNorm(nn.Module):
    """Layer normalisation of the features of each network of an ensemble. State: ``weight``, ``bias`` ``[E * width]``.

    Arguments:
        members: E.
        width: features of a network.
    """

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.shape = (members, 1, width)
        self.weight = nn.Parameter(torch.ones(members * width))
        self.bias = nn.Parameter(torch.zeros(members * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise ``[E, B, width]``."""
        normed = nn.functional.layer_norm(x, self.shape[-1:])
        return normed * self.weight.view(self.shape) + self.bias.view(self.shape)


# Normalisations over `[B, C, 1]`; the channels are the features of all networks.
_OF_CHANNELS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, BatchRenorm)


def _by_member(x: torch.Tensor, members: int) -> torch.Tensor:
    """Return ``[B, E * in]`` or ``[B, E * in, 1]`` as ``[E, B, in]``."""
    return x.reshape(x.shape[0], members, -1).transpose(0, 1)


def _channels(x: torch.Tensor) -> torch.Tensor:
    """Return ``[E, B, in]`` as ``[B, E * in, 1]``."""
    return x.transpose(0, 1).reshape(x.shape[1], -1, 1)


def _each_member(linear: nn.Conv1d, x: torch.Tensor) -> torch.Tensor:
    """Compute a grouped convolution of width 1 five times faster on a CPU: ``[E, B, in]`` to ``[E, B, out]``. An input
    ``[B, in]`` shared by all members takes a single product.
    """
    members = linear.groups
    if x.ndim == 2:
        return _by_member(nn.functional.linear(x, linear.weight.squeeze(-1), linear.bias), members)
    weight = linear.weight.reshape(members, -1, x.shape[-1]).transpose(1, 2)
    bias = linear.bias.reshape(members, 1, -1)  # type: ignore[union-attr]
    return torch.baddbmm(bias, x, weight)
