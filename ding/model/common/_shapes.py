"""What an observation or action shape may look like, and errors that name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

ObsShape = Any  # int, a sequence of ints, or a mapping of names to those
Shape = int | tuple[int, ...]


def as_shape(value: Any, name: str) -> Shape:
    """An int for one axis, a tuple of ints for several; one-element sequences become their element.

    Raises:
        ValueError: not a positive int or a non-empty sequence of them.
    """
    if is_int(value) and value > 0:
        return int(value)
    if isinstance(value, list | tuple) and value and all(is_int(item) and item > 0 for item in value):
        return int(value[0]) if len(value) == 1 else tuple(int(item) for item in value)
    raise ValueError(f"{name} must be a positive int or a sequence of them, got {value!r}")


def is_int(value: Any) -> TypeGuard[int]:
    """Whether ``value`` is an integer (of Python or numpy) and no bool."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether ``value`` is a mapping."""
    return isinstance(value, Mapping)


def output_sizes(action_shape: Any, name: str = "action_shape") -> int | list[int]:
    """The number of actions, or the numbers per head of a multi-discrete action space."""
    shape = as_shape(action_shape, name)
    return shape if isinstance(shape, int) else list(shape)
