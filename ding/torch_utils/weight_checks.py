"""What may be wrong with weights: NaN and infinity, and shapes of another network."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from ding.utils.errors import UserMistake
from ding.utils.nested import dotted, iter_paths

ON_NONFINITE = ("raise", "skip", "ignore")
"""What ``policy.learn.on_nonfinite`` may be: end the run, leave out the update, or look away."""


# So many names are listed in a message.
_SHOWN = 6


class NonFiniteError(ArithmeticError, UserMistake):
    """A loss, a gradient or a weight is NaN or infinite."""


def nonfinite_entry(state: object, names: Collection[str] | None = None) -> str | None:
    """Name of the first tensor in nested dicts that is not finite, dots between the keys; None when all are.

    Args:
        state: dicts, lists and tensors.
        names: only tensors with these names are looked at; None: all.
    """
    for keys, leaf in iter_paths(state, sequences=(list, tuple)):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            name = ".".join(map(str, keys))
            if (names is None or name in names) and not bool(torch.isfinite(leaf).all()):
                return name
    return None


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


def misfit(state: object, expected: Mapping[str, Any], where: str = "state") -> str | None:
    """What of a state does not fit in the place of another one, all of it by names; None when everything does.

    Args:
        state, expected: nested dicts of tensors and plain values; tensors must have the same shapes.
        where: begins the text.
    """
    if not isinstance(state, Mapping):
        return f"{where} is a {type(state).__name__}, expected a dict"
    there, here = dotted(state), dotted(expected)
    shapes = [
        f"{name} is {_shape(there[name])} there and {_shape(value)} here"
        for name, value in here.items()
        if name in there and isinstance(value, torch.Tensor) and _shape(there[name]) != _shape(value)
    ]
    texts = {
        "not there": [name for name in here if name not in there],
        "unknown": [name for name in there if name not in here],
        "of another shape": shapes,
    }
    found = [f"{len(names)} {what} ({_listed(names)})" for what, names in texts.items() if names]
    return f"{where}: {', '.join(found)}" if found else None


def _shape(value: object) -> object:
    return list(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__


def _listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
