"""Shared walking rules of the data helpers: which Python objects are containers and how they are rebuilt."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def is_namedtuple(item: object) -> bool:
    return isinstance(item, tuple) and hasattr(item, "_fields")


def rebuild_sequence(template: Any, items: list[Any]) -> Any:
    """Give ``items`` the sequence type of ``template``: a named tuple, a tuple, or a list for everything else."""
    if isinstance(template, tuple):
        return type(template)(*items) if is_namedtuple(template) else tuple(items)
    return items


def is_container(item: object) -> bool:
    return isinstance(item, (Mapping, list, tuple))


def map_container(item: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply ``fn`` to every direct child. Mappings become plain dicts, tuples and named tuples keep their type."""
    if isinstance(item, Mapping):
        return {key: fn(value) for key, value in item.items()}
    return rebuild_sequence(item, [fn(value) for value in item])


def is_number(item: object) -> bool:
    """True for Python and numpy numbers, booleans included (a list of booleans becomes one tensor)."""
    return isinstance(item, (bool, int, float, np.number, np.bool_))


def unsupported(function: str, item: object, expected: str) -> TypeError:
    return TypeError(f"{function} cannot handle {type(item).__module__}.{type(item).__qualname__}: expected {expected}")
