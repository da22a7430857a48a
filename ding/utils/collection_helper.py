"""Helpers over iterables and sequences."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


def iter_mapping(iter_: Iterable[A], mapping: Callable[[A], B]) -> Iterator[B]:
    """Yield ``mapping(item)`` for each item, lazily."""
    return map(mapping, iter_)


def list_split(data: Sequence[Any], step: int) -> tuple[list[Any], Any]:
    """Cut into slices of ``step``. Returns ``(full slices, shorter rest or None)``."""
    if step < 1:
        raise ValueError(f"step must be at least 1, got {step}")
    full = len(data) // step * step
    slices = [data[i : i + step] for i in range(0, full, step)]
    return slices, (data[full:] if full < len(data) else None)


def squeeze(data: object) -> Any:
    """Return the element of a tuple, list or dict of one; a longer list or tuple becomes a tuple, a longer dict is
    unchanged.
    """
    if isinstance(data, (tuple, list)):
        return data[0] if len(data) == 1 else tuple(data)
    if isinstance(data, dict) and len(data) == 1:
        return next(iter(data.values()))
    return data
