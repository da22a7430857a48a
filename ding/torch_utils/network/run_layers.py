"""``run_layers``: layers one after the other, on numbers of any dtype."""

from collections.abc import Iterable

import torch
from torch import nn

# Layers that take floats of their own dtype only, whatever the numbers are.
_OF_FLOATS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def run_layers(layers: Iterable[nn.Module], x: torch.Tensor) -> torch.Tensor:
    """Feed ``x`` through ``layers`` one after the other.

    Arguments:
        layers: modules of one tensor in, one tensor out.
        x: ``[..., in_features]``; integers and bools get the dtype of the first layer, if that is one of torch.
    """
    if not x.is_floating_point():
        layers = list(layers)
        x = _cast(x, layers)
    for layer in layers:
        x = layer(x)
    return x


def _cast(x: torch.Tensor, layers: Iterable[nn.Module]) -> torch.Tensor:
    """Integers and bools in the dtype of the first layer that has parameters, if it is one of ``_OF_FLOATS``."""
    for layer in layers:
        weight = next(layer.parameters(), None)
        if weight is None:
            continue
        if type(layer) is nn.Sequential:
            return _cast(x, layer)
        return x.to(weight.dtype) if isinstance(layer, _OF_FLOATS) else x
    return x
