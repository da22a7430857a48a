"""Valid observation and action shapes, and errors that name invalid ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import torch

ObsShape: TypeAlias = "int | Sequence[int] | Mapping[str, int | Sequence[int]]"
"""Observation shape of a model; a mapping names the parts of a dict."""

Observation: TypeAlias = "torch.Tensor | Mapping[str, Any]"
"""A batch of observations: float or integer ``[B, *obs_shape]``, or such by name."""

Shape: TypeAlias = "int | tuple[int, ...]"


def as_shape(value: object, name: str) -> Shape:
    """Return an int for one axis, a tuple of ints for several; one-element sequences become their element.

    Raises:
        ValueError: not a positive int or a non-empty sequence of them.
    """
    if is_int(value) and value > 0:
        return int(value)
    if isinstance(value, list | tuple) and value and all(is_int(item) and item > 0 for item in value):
        return int(value[0]) if len(value) == 1 else tuple(int(item) for item in value)
    raise ValueError(f"{name} must be a positive int or a sequence of them, got {value!r}")


def squeezed(action_shape: object) -> object:
    """Return a shape of one axis as an int and one of several as a tuple, as models show in ``action_shape``; other
    values are unchanged.
    """
    try:
        return as_shape(action_shape, "action_shape")
    except ValueError:
        return action_shape


def is_int(value: object) -> TypeGuard[int]:
    """Return whether ``value`` is an integer (Python or numpy) but not a bool."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def output_sizes(action_shape: int | Sequence[int], name: str = "action_shape") -> int | list[int]:
    """Return the number of actions, or the numbers per head of a multi-discrete action space."""
    shape = as_shape(action_shape, name)
    return shape if isinstance(shape, int) else list(shape)
