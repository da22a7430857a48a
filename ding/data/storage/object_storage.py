"""Rows of any form, kept as the objects they are."""

from typing import Any

import numpy as np

from ding.data.storage.base import Storage


class ObjectStorage(Storage):
    """A list of references.

    Reading gives shallow copies of dicts and lists, so that who adds or replaces keys of a sample does not change the
    stored row (what lies inside is shared), and the object itself for anything else.
    """

    columnar = False

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._items: list[Any] = [None] * capacity

    def write(self, start: int, rows: list[Any], count: int) -> None:
        until = min(count, self.capacity - start)
        self._items[start : start + until] = rows[:until]
        self._items[: count - until] = rows[until:]

    def read(self, positions: np.ndarray) -> list[Any]:
        items = self._items
        return [_copy(items[position]) for position in positions.tolist()]

    def erase(self, positions: np.ndarray) -> None:
        for position in positions.tolist():
            self._items[position] = None

    def clear(self) -> None:
        self._items = [None] * self.capacity

    @property
    def nbytes(self) -> int:
        return 8 * self.capacity


def _copy(item: Any) -> Any:
    return item.copy() if type(item) in (dict, list) else item
