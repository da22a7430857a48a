"""Whether weights belong to a network, told before anything is loaded."""

from collections.abc import Mapping

import torch


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
