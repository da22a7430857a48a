"""Helpers over iterables."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def iter_mapping(iter_: Iterable[A], mapping: Callable[[A], B]) -> Iterator[B]:
    """Yield ``mapping(item)`` for each item, lazily."""
    return map(mapping, iter_)
