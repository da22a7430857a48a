"""Layers that merge several vectors into one."""

import enum

import torch
from torch import nn

from ding.torch_utils.network.nn_module import fc_block
from ding.utils.errors import InvalidArgumentError


class GatingType(enum.Enum):
    """How ``VectorMerge`` weighs its inputs: not at all, by one gate per input, or by one per input and feature."""

    NONE = "none"
    GLOBAL = "global"
    POINTWISE = "pointwise"


class SumMerge(nn.Module):
    """The sum of tensors of one shape."""

    def forward(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Any number of tensors ``[...]`` to ``[...]``."""
        return torch.stack(list(tensors), dim=0).sum(dim=0)


class TorchBilinearCustomized(nn.Module):
    """``x W z + b`` for ``x`` ``[B, in1]`` and ``z`` ``[B, in2]``: ``[B, out]``, or ``[B]`` for one feature.

    Parameters: ``weight`` ``[out, in1, in2]`` and ``bias`` ``[out]``, uniform within ``1 / sqrt(in1)``.
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = _uniform(in1_features, out_features, in1_features, in2_features)
        self.bias = _uniform(in1_features, out_features)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return (_bilinear(x, self.weight, z) + self.bias).squeeze(-1)


class TorchBilinear(nn.Bilinear):
    """``torch.nn.Bilinear``, under the name that it has in DI-engine."""


class BilinearGeneral(nn.Module):
    """``x W z + U z + V x + b`` for ``x`` ``[B, in1]`` and ``z`` ``[B, in2]``: ``[B, out]`` (Jayakumar et al. 2020,
    "Multiplicative Interactions and Where to Find Them").

    Parameters: ``W`` ``[out, in1, in2]``, ``U`` ``[out, in2]``, ``V`` ``[out, in1]``, ``b`` ``[out]``, uniform within
    ``1 / sqrt(in1)``.
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int) -> None:
        super().__init__()
        self.W = _uniform(in1_features, out_features, in1_features, in2_features)
        self.U = _uniform(in1_features, out_features, in2_features)
        self.V = _uniform(in1_features, out_features, in1_features)
        self.b = _uniform(in1_features, out_features)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return _bilinear(x, self.W, z) + z @ self.U.T + x @ self.V.T + self.b


class FiLM(nn.Module):
    """Scale and shift features depending on a context (Perez et al. 2018, arXiv:1709.07871)."""

    def __init__(self, feature_dim: int, context_dim: int) -> None:
        super().__init__()
        self.context_layer = nn.Linear(context_dim, 2 * feature_dim)

    def forward(self, feature: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Map features ``[..., feature_dim]`` and context ``[..., context_dim]`` to features."""
        gamma, beta = self.context_layer(context).chunk(2, dim=-1)
        output: torch.Tensor = gamma * feature + beta
        return output


def _uniform(fan_in: int, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape).uniform_(-(fan_in**-0.5), fan_in**-0.5))


def _bilinear(x: torch.Tensor, weight: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.einsum("...i,oij,...j->...o", x, weight, z)


class VectorMerge(nn.Module):
    """Merge named vectors: project each to ``output_size`` and sum them, weighed by learned gates.

    Arguments:
        input_sizes: features per name.
        gating_type: with gates, the gates are computed from all inputs and normalised by a softmax over the inputs.
        use_layer_norm: normalise each input before its projection.
    """

    def __init__(
        self,
        input_sizes: dict[str, int],
        output_size: int,
        gating_type: GatingType = GatingType.NONE,
        use_layer_norm: bool = True,
    ) -> None:
        super().__init__()
        if not input_sizes:
            raise InvalidArgumentError("input_sizes must name at least one input")
        self.input_sizes = dict(input_sizes)
        self.output_size = output_size
        self.gating_type = gating_type
        self.use_layer_norm = use_layer_norm
        self.layer_norms = nn.ModuleDict()
        if use_layer_norm:
            self.layer_norms.update({name: nn.LayerNorm(size) for name, size in self.input_sizes.items()})
        self.linears = nn.ModuleDict({name: fc_block(size, output_size) for name, size in self.input_sizes.items()})
        gates = 1 if gating_type is GatingType.GLOBAL else output_size
        self.gating_linears = nn.ModuleDict()
        # One input needs no gate: the softmax over it would be 1.
        if gating_type is not GatingType.NONE and len(self.input_sizes) > 1:
            width = len(self.input_sizes) * gates
            self.gating_linears.update({name: nn.Linear(size, width) for name, size in self.input_sizes.items()})

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Map ``{name: [B, features of name]}`` to ``[B, output_size]``."""
        missing = [name for name in self.input_sizes if name not in inputs]
        if missing:
            raise KeyError(f"VectorMerge misses the inputs {missing}, got {sorted(inputs)}")
        normed = {name: self._normalize(name, inputs[name]) for name in self.input_sizes}
        projected = torch.stack([self.linears[name](x) for name, x in normed.items()], dim=1)
        if not len(self.gating_linears):
            return projected.sum(dim=1)
        logits = torch.stack([self.gating_linears[name](x) for name, x in normed.items()]).sum(dim=0)
        gate = logits.reshape(projected.shape[0], projected.shape[1], -1).softmax(dim=1)
        return (gate * projected).sum(dim=1)

    def _normalize(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer_norms[name](x)) if self.use_layer_norm else torch.relu(x)
