"""Rows of any form, kept as the objects they are."""

from typing import Any

import numpy as np
import torch

from ding.data.columns import Leaf, SchemaError
from ding.data.storage.base import RowStorage
from ding.data.transition_batch import TransitionBatch
from ding.utils.nested import map_leaves


class ObjectStorage(RowStorage):
    """A list of references.

    Reading gives shallow copies of dicts, of lists and the dicts in them, so that who adds or replaces keys of a sample
    does not change the stored row (what lies inside is shared), copies of batches, and any other object itself.
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

    @property
    def nbytes(self) -> int:
        return 8 * self.capacity


def _copy(item: object) -> object:
    if isinstance(item, dict):
        return item.copy()
    if type(item) is list:
        # An episode: a list of dicts.
        return [one.copy() if isinstance(one, dict) else one for one in item]
    return copied_batch(item) if isinstance(item, TransitionBatch) else item


def copied_batch(batch: TransitionBatch) -> TransitionBatch:
    """Return a batch that shares no array with ``batch``."""
    if not len(batch):
        return TransitionBatch.from_rows([])
    try:
        columns = batch.columns
    except SchemaError:
        return TransitionBatch.from_rows([row.copy() for row in batch.rows()])
    return TransitionBatch.unchecked(map_leaves(_copied, columns), len(batch), batch.lengths)


def _copied(leaf: Leaf) -> Leaf:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf.copy()
