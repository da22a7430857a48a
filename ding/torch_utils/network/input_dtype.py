"""``as_input``: integers and bools in the dtype of the layers that read them."""

import torch
from torch import nn

# Layers that take floats of their own dtype only, whatever the numbers are.
_OF_FLOATS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LayerNorm)


def as_input(x: torch.Tensor, network: nn.Module) -> torch.Tensor:
    """Return ``x`` in the dtype that ``network`` takes.

    Integers and bools get the dtype of the first layer that has parameters, if that is a linear layer, a convolution or
    a layer norm of torch, alone or in an ``nn.Sequential``. Floats, and the input of other networks such as an
    embedding, stay.
    """
    if x.is_floating_point():
        return x
    first = _first_layer(network)
    return x.to(first.weight.dtype) if isinstance(first, _OF_FLOATS) else x


def _first_layer(network: nn.Module) -> nn.Module | None:
    """Return the first layer with parameters, as far as the order of layers is known."""
    if type(network) is not nn.Sequential:
        return network
    return next((_first_layer(layer) for layer in network if next(layer.parameters(), None) is not None), None)
