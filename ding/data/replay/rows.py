"""The rows of a buffer, in the storage that fits them."""

import copy
import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ding.data.columns import SchemaError, map_leaves, row_list, take
from ding.data.replay.updates import Rows
from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.data.storage import (
    ElidedRows,
    ObjectStorage,
    RowStorage,
    SavedRows,
    StorageOptions,
    columns_of,
    is_elided,
    make_storage,
)
from ding.data.transition_batch import TransitionBatch


class RowStore:
    """Rows by slot. The first rows decide about the storage. Not thread-safe.

    Args:
        size: number of slots.
        options: how rows are kept.
        turned: called when rows of another form make all rows objects.
    """

    def __init__(self, size: int, options: StorageOptions, turned: Callable[[], None] | None = None) -> None:
        self.size = size
        self.options = options
        self.storage: RowStorage | None = None
        self._turned = turned

    def write(self, start: int, rows: Rows, count: int, held: Callable[[], np.ndarray]) -> None:
        """Write ``count`` rows (at most ``size``) to ``start, start + 1, ...``, at the begin again after the last slot.

        Args:
            start: slot of the first row.
            rows: columns, or a list.
            count: number of rows.
            held: gives the slots that hold a row.

        Raises:
            SchemaError: rows that do not fit, unless ``mixed_rows``. Nothing has changed then.
            OSError: the disk of rows in files is full. Nothing has changed then.
        """
        storage = self.storage
        if storage is None:
            storage = make_storage(rows, self.size, self.options)
        try:
            storage.write(start, columns_of(rows) if storage.columnar and type(rows) is list else rows, count)
        except SchemaError:
            if not self.options.mixed_rows:
                raise
            storage = self._as_objects(held())
            storage.write(start, rows if isinstance(rows, list) else row_list(rows, count), count)
        self.storage = storage

    def _as_objects(self, slots: np.ndarray) -> ObjectStorage:
        """The rows in these slots as objects."""
        objects = ObjectStorage(self.size)
        for slot, row in zip(slots.tolist(), self.read(slots)):
            objects.write(slot, [row], 1)
        if self._turned is not None:
            self._turned()
        return objects

    def write_to(self, slots: np.ndarray, rows: dict[str, Any]) -> None:
        """Write columns to any slots, int64 ``[N]``: one write per run of neighbours."""
        ends = np.flatnonzero((slots[1:] - slots[:-1] - 1) % self.size) + 1
        for begin, end in itertools.pairwise([0, *ends.tolist(), len(slots)]):
            part: Any = rows if end - begin == len(slots) else take(rows, slice(begin, end))
            self.write(int(slots[begin]), part, end - begin, lambda: slots[:0])

    def read(self, slots: np.ndarray) -> Any:
        """Copies of the rows in int64 ``[N]`` slots: a ``TransitionBatch``, or a list of objects."""
        return self.storage.read(slots) if self.storage is not None else []

    def erase(self, slots: np.ndarray) -> None:
        """Release the objects in these slots."""
        if self.storage is not None:
            self.storage.erase(slots)

    def clear(self) -> None:
        """Forget all rows and their schema."""
        if self.storage is not None:
            self.storage.close()
        self.storage = None

    def check(self, columns: dict[str, Any], count: int) -> None:
        """Raise what :meth:`write` raises for the values in columns; some fields may be left out."""
        if self.storage is not None and self.storage.columnar and not self.options.mixed_rows:
            self.storage.check(columns, count)

    def copied(self, slots: np.ndarray) -> Any:
        """These rows as plain data for a state: columns, deduplicated rows or a list; ``None`` if none."""
        return None if self.storage is None else self.storage.copied(slots)

    def saved(self, slots: np.ndarray) -> Any:
        """The rows in these slots for :func:`write_rows`, which has to come before the next change."""
        return [] if self.storage is None else self.storage.saved(slots)


def copied_deeply(rows: "TransitionBatch | list[Any]") -> Any:
    """A deep copy of rows that were read: what is stored as arrays is copied already."""
    if not isinstance(rows, TransitionBatch):
        return copy.deepcopy(rows)
    columns: Any = map_leaves(lambda leaf: copy.deepcopy(leaf) if isinstance(leaf, list) else leaf, rows.columns)
    return TransitionBatch.unchecked(columns, len(rows))


_FILE_KIND = "replay buffer"


def write_rows(path: "str | os.PathLike[str]", rows: Any) -> None:
    """Write what :meth:`RowStore.saved` gave to a file that :func:`read_rows` reads.

    Raises:
        SafeFileError: a row holds something that cannot be saved safely; the message says where.
        OSError: the file cannot be written; one of this name is left as it was.
    """
    write_tree(path, rows, _FILE_KIND, rows["layout"] if is_elided(rows) else None)


def read_rows(path: "str | os.PathLike[str]") -> "SavedRows | list[Any]":
    """The rows of a file, to be read from it a part at a time, or its objects.

    Raises:
        SafeFileError: the file is broken or not one of ours.
        SchemaError: an index of deduplicated rows refers to no frame.
        OSError: the file cannot be read.
    """
    data = read_tree(path, _FILE_KIND, mapped=True)
    if is_elided(data):
        return ElidedRows(data, mapped=True)
    if isinstance(data, TransitionBatch):
        return SavedRows(data.columns, len(data), data.lengths, mapped=True)
    if isinstance(data, list):
        # Objects are kept as they are pushed, and must not refer to the file.
        return copy.deepcopy(data)
    raise SafeFileError(f"{path} holds no rows but a {type(data).__name__}")
