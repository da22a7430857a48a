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
        """``{name: [B, features of name]}`` to ``[B, output_size]``."""
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
