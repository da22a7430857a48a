"""What may be wrong with weights: NaN and infinity, and shapes of another network."""

from collections.abc import Collection, Mapping
from typing import Any

import torch

ON_NONFINITE = ("raise", "skip", "ignore")
"""What ``policy.learn.on_nonfinite`` may be: end the run, leave out the update, or look away."""


class NonFiniteError(ArithmeticError):
    """A loss, a gradient or a weight is NaN or infinite."""


def nonfinite_entry(state: object, names: Collection[str] | None = None, prefix: str = "") -> str | None:
    """Name of the first tensor in nested dicts that is not finite, dots between the keys; None when all are.

    Args:
        state: dicts, lists and tensors.
        names: only tensors with these names are looked at; None: all.
    """
    if isinstance(state, torch.Tensor):
        looked_at = state.is_floating_point() and (names is None or prefix in names)
        return prefix if looked_at and not bool(torch.isfinite(state).all()) else None
    items: Any = ()
    if isinstance(state, Mapping):
        items = state.items()
    elif isinstance(state, (list, tuple)):
        items = enumerate(state)
    for key, value in items:
        found = nonfinite_entry(value, names, f"{prefix}.{key}" if prefix else str(key))
        if found is not None:
            return found
    return None


def nonfinite_parameter(model: object) -> str | None:
    """Name of the first parameter of a network that is not finite; None when all are, or when it is no network."""
    if not isinstance(model, torch.nn.Module):
        return None
    return nonfinite_entry({name: parameter.detach() for name, parameter in model.named_parameters()})


def check_weights(state: object, model: object, what: str) -> None:
    """Refuse the weights of a network that are not finite. Buffers, as masks, may hold what they like.

    Args:
        state: of the network; another kind is left to those who load it.
        model: the network, for the names of its parameters; where it is none, all tensors are looked at.
        what: begins the message.

    Raises:
        NonFiniteError: the message names the weight.
    """
    names = {name for name, _ in model.named_parameters()} if isinstance(model, torch.nn.Module) else None
    found = nonfinite_entry(state, names)
    if found is not None:
        raise NonFiniteError(f"{what} is refused: its weight {found} is NaN or infinite")


def misfit(state: object, expected: object, where: str = "state") -> str | None:
    """What first keeps ``state`` from being loaded in the place of ``expected``; None when nothing does.

    Args:
        state, expected: nested dicts of tensors and plain values; tensors must have the same shapes.
    """
    if isinstance(expected, Mapping):
        if not isinstance(state, Mapping):
            return f"{where} is a {type(state).__name__}, expected a dict"
        for key in expected:
            if key not in state:
                return f"{where} lacks {key!r}"
            found = misfit(state[key], expected[key], f"{where}[{key!r}]")
            if found is not None:
                return found
        unknown = [key for key in state if key not in expected]
        return f"{where} has the unknown key {unknown[0]!r}" if unknown else None
    if isinstance(expected, torch.Tensor):
        shape = tuple(state.shape) if isinstance(state, torch.Tensor) else None
        if shape != tuple(expected.shape):
            return f"{where} has the shape {shape}, expected {tuple(expected.shape)}"
    return None
