"""A storage made anew from the rows of a state."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ding.data.columns import SchemaError, check_rows, row_list
from ding.data.storage._choose import StorageOptions, make_storage
from ding.data.storage._elided_rows import ElidedRows, is_elided
from ding.data.storage._saved_rows import SavedRows
from ding.data.storage.base import RowStorage
from ding.data.storage.object_storage import ObjectStorage
from ding.data.transition_batch import TransitionBatch


def filled_storage(
    data: "Mapping[str, Any] | TransitionBatch | list[Any] | None",
    positions: np.ndarray,
    capacity: int,
    options: StorageOptions,
) -> "RowStorage | None":
    """Return a storage that holds the rows of a state where they were.

    Args:
        data: columns, a ``TransitionBatch``, deduplicated rows, a list of objects, or ``None`` for no rows at all.
        positions: int64 ``[N]``, one per row.
        capacity: number of slots.
        options: how rows are kept.

    Returns:
        The storage; ``None`` for ``None``.

    Raises:
        SchemaError: the rows are damaged, or not as many as positions.
    """
    if data is None and not len(positions):
        return None
    if isinstance(data, list):
        return _filled_with_objects(data, positions, capacity)
    rows = _saved_rows(data, len(positions))
    storage = make_storage(rows.expand(0, min(1, rows.count)), capacity, options)
    for begin, end in _runs(positions):
        for at, until in rows.chunks(begin, end):
            part = rows.expand(at, until)
            storage.write(int(positions[at]), part if storage.columnar else row_list(part, until - at), until - at)
    return storage


def _filled_with_objects(rows: list[Any], positions: np.ndarray, capacity: int) -> RowStorage:
    """Rows that were kept as objects stay objects, even when those that are left have one schema."""
    _check_number(len(rows), len(positions))
    storage = ObjectStorage(capacity)
    for begin, end in _runs(positions):
        part = [row.copy() if type(row) in (dict, list) else row for row in rows[begin:end]]
        storage.write(int(positions[begin]), part, end - begin)
    return storage


def _saved_rows(data: "Mapping[str, Any] | TransitionBatch | list[Any] | None", count: int) -> SavedRows:
    if is_elided(data):
        elided = ElidedRows(data)
        _check_number(elided.count, count)
        return elided
    columns = data.columns if isinstance(data, TransitionBatch) else data
    if not isinstance(columns, dict):
        raise SchemaError(f"the state has {type(data).__name__} for {count} positions")
    check_rows(columns, count)
    return SavedRows(columns, count)


def _check_number(found: int, needed: int) -> None:
    if found != needed:
        raise SchemaError(f"the state has {found} rows for {needed} positions")


def _runs(positions: np.ndarray) -> Iterator[tuple[int, int]]:
    """Return the bounds of the runs of neighbouring positions, so that a whole ring is two writes."""
    breaks = (np.flatnonzero(np.diff(positions) != 1) + 1).tolist()
    return ((begin, end) for begin, end in itertools.pairwise([0, *breaks, len(positions)]) if end > begin)
