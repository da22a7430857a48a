"""Nested dicts, lists and tuples: a function of every leaf, and tuples that stay what they are."""

from collections.abc import Callable, Mapping
from typing import Any

COLLATE_IGNORE = "collate_ignore"


def is_ignored_key(key: object) -> bool:
    """Whether a dict key says that its values are neither batched nor converted: it begins with ``collate_ignore``."""
    return isinstance(key, str) and key.startswith(COLLATE_IGNORE)


def map_nested(fn: Callable[[Any], Any], data: object) -> Any:
    """``fn`` of every leaf of nested mappings, which become dicts, lists and tuples."""
    if isinstance(data, Mapping):
        return {key: map_nested(fn, value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return rebuilt(data, [map_nested(fn, value) for value in data])
    return fn(data)


def is_namedtuple(item: object) -> bool:
    """Whether ``item`` is a named tuple, which is built from its fields one by one."""
    return isinstance(item, tuple) and hasattr(item, "_fields")


def rebuilt(template: object, items: list[Any]) -> Any:
    """``items`` as what ``template`` is: a named tuple, a tuple, or a list for everything else."""
    if isinstance(template, tuple):
        return type(template)(*items) if is_namedtuple(template) else tuple(items)
    return items
