"""Run a stack of layers with less overhead than one ``nn.Module.__call__`` per layer.

For the small networks of reinforcement learning the cost of a forward pass is the Python around the kernels.
``run_layers`` calls the kernel of a plain linear or activation layer directly and every other layer as usual, so the
numbers are the same, bit for bit, and hooks, normalisation, dropout and noise layers keep working. Parameters are
read from the layers at each call: loading a state dict, moving to a device, changing the precision and replacing a
parameter need no notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as _module

# An activation may overwrite its input only when a linear layer made it here and nobody else (a hook, the caller) can
# hold it.
_IN_PLACE: dict[type, Callable[[torch.Tensor], torch.Tensor]] = {
    nn.ReLU: torch.relu_,
    nn.Tanh: torch.tanh_,
    nn.Sigmoid: torch.sigmoid_,
}
_OUT_OF_PLACE: dict[type, Callable[[torch.Tensor], torch.Tensor]] = {
    nn.ReLU: torch.relu,
    nn.Tanh: torch.tanh,
    nn.Sigmoid: torch.sigmoid,
}
_LINEAR, _SEQUENTIAL, _linear = nn.Linear, nn.Sequential, F.linear  # each attribute look-up counts here


def has_hooks(layer: nn.Module) -> bool:
    """Whether something besides ``forward`` runs when ``layer`` is called: its own hooks, or a ``forward`` replaced
    on the instance.
    """
    state = layer.__dict__
    return bool(
        state["_forward_hooks"]
        or state["_forward_pre_hooks"]
        or state["_backward_hooks"]
        or state["_backward_pre_hooks"]
        or "forward" in state
    )


def has_global_hooks() -> bool:
    """Whether hooks for all modules are registered (profilers and debuggers do this)."""
    return bool(
        _module._global_forward_hooks
        or _module._global_forward_pre_hooks
        or _module._global_backward_hooks
        or _module._global_backward_pre_hooks
    )


def run_layers(layers: Iterable[nn.Module], x: torch.Tensor) -> torch.Tensor:
    """Feed ``x`` through ``layers`` one after the other; equal to calling them in turn.

    Arguments:
        layers: modules of one tensor in, one tensor out. A plain ``nn.Sequential`` among them is entered.
        x: float ``[..., in_features]``; never changed in place (except by a layer that says ``inplace=True``, as
            usual).
    """
    if has_global_hooks():
        for layer in layers:
            x = layer(x)
        return x
    return _run(layers, x, False)[0]


def _run(layers: Iterable[nn.Module], x: torch.Tensor, owned: bool) -> tuple[torch.Tensor, bool]:
    """The body of ``run_layers``; ``owned`` tells whether ``x`` is a product made here, which may be overwritten."""
    for layer in layers:
        kind = type(layer)
        state = layer.__dict__
        # This is ``has_hooks``, written out: the call would cost as much as the test.
        if (
            state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
            or "forward" in state
        ):
            x, owned = layer(x), False
        elif kind is _LINEAR:
            parameters = state["_parameters"]
            x = _linear(x, parameters["weight"], parameters["bias"])
            owned = True
        elif kind in _OUT_OF_PLACE:
            # Its result is what its own backward pass reads, so the next activation must not overwrite it.
            x = (_IN_PLACE if owned or state.get("inplace") else _OUT_OF_PLACE)[kind](x)
            owned = False
        elif kind is _SEQUENTIAL:
            x, owned = _run(state["_modules"].values(), x, owned)
        elif kind is not nn.Identity:
            x, owned = layer(x), False
    return x, owned
