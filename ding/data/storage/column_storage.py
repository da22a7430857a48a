"""Rows of one schema in preallocated ring columns."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ding.data._tree_codec import PickedRows
from ding.data.storage._schema import OBJECTS, TENSOR, Field, check_paths, check_values, dig
from ding.data.storage.base import Storage
from ding.data.storage.mapped import MappedFiles
from ding.data.transition_batch import TransitionBatch

# Fields of more bytes per row are read to memory in one piece, see `_targets`.
_LARGE_ROW_BYTES = 512
# Arrays in one piece of memory begin at multiples of so many bytes.
_ALIGN = 64
_REFERENCE_BYTES = 8

Allocate = Callable[[str, "tuple[int, ...]", np.dtype], np.ndarray]


def in_memory(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeroed memory, which the system provides page by page as it is written."""
    return np.zeros(shape, dtype)


class ColumnStorage(Storage):
    """One array per field.

    A batch is read with one gather per field, and written with one slice assignment per field, two where it wraps
    around.

    Args:
        capacity: number of rows.
        fields: the schema, see :func:`~ding.data.storage._schema.fields_of`.
        allocate: gives the memory for an array.
    """

    columnar = True

    def __init__(self, capacity: int, fields: tuple[Field, ...], allocate: Allocate = in_memory) -> None:
        self.capacity = capacity
        self.fields = fields
        self._mapped = allocate if isinstance(allocate, MappedFiles) else None
        self._reserved_rows = 0
        # Per field an array, a list of objects, or None for what a subclass keeps in its own way.
        self._arrays: list[Any] = []
        for number, field in enumerate(fields):
            if field.kind == OBJECTS:
                self._arrays.append([None] * capacity)
            elif self._keeps(number):
                self._arrays.append(allocate(field.name, (capacity, *field.shape), field.stored_dtype))
            else:
                self._arrays.append(None)
        self._flat = all(len(field.path) == 1 for field in fields)
        self._large = [
            number
            for number, field in enumerate(fields)
            if self._arrays[number] is None or field.row_bytes > _LARGE_ROW_BYTES
        ]
        # Per field its key, whether it is a tensor, dtype and row shape; empty for rows that need a closer look.
        self._plan: list[tuple[str, bool, Any, tuple[int, ...]]] = []
        if self._flat and all(field.kind != OBJECTS and field.recast is None for field in fields):
            self._plan = [(field.path[0], field.kind == TENSOR, field.dtype, field.shape) for field in fields]

    def _keeps(self, number: int) -> bool:
        """Whether a field has an array of its own here."""
        return True

    # ------------------------------------------------------------------ write

    def write(self, start: int, rows: dict[str, Any], count: int) -> None:
        leaves = self._exact(rows, count) or self._checked(rows, count)
        if self._mapped is not None:
            self._reserve(self._mapped, start, count)
        self._put(start, count, leaves)

    def _exact(self, rows: dict[str, Any], count: int) -> list[np.ndarray]:
        """The arrays of rows that have the very types that are stored; empty for others, which may fit all the same."""
        if len(rows) != len(self._plan):
            return []
        arrays = []
        try:
            for key, tensor, dtype, shape in self._plan:
                leaf = rows[key]
                kind: type = type(leaf)
                if kind is not (torch.Tensor if tensor else np.ndarray):
                    return []
                array: np.ndarray = leaf.numpy() if tensor else leaf
                if array.dtype != dtype or array.shape != (count, *shape):
                    return []
                arrays.append(array)
        except (KeyError, RuntimeError, TypeError):
            # A missing field, or a tensor that needs a gradient, is on a device or has no form as an array.
            return []
        return arrays

    def _checked(self, columns: dict[str, Any], count: int) -> list[Any]:
        check_paths(self.fields, columns)
        return [field.check(dig(columns, field.path), count) for field in self.fields]

    def check(self, columns: dict[str, Any], count: int) -> None:
        check_values(self.fields, columns, count)

    def _reserve(self, files: MappedFiles, start: int, count: int) -> None:
        """Have space on the disk for what is about to be written, or raise :class:`OSError`."""
        rows = min(start + count, self.capacity)
        if rows <= self._reserved_rows:
            return
        arrays = [array for array in self._arrays if isinstance(array, np.ndarray)]
        self._reserved_rows = min((files.reserve(array, rows) for array in arrays), default=rows)

    def _put(self, start: int, count: int, leaves: list[Any]) -> None:
        """Copy leaves that are known to fit."""
        stop = start + count
        if stop <= self.capacity:
            for array, leaf in zip(self._arrays, leaves):
                if array is not None:
                    array[start:stop] = leaf
            return
        until, rest = self.capacity - start, stop - self.capacity
        for array, leaf in zip(self._arrays, leaves):
            if array is not None:
                array[start:] = leaf[:until]
                array[:rest] = leaf[until:]

    # ------------------------------------------------------------------ read

    def read(self, positions: np.ndarray) -> TransitionBatch:
        return TransitionBatch.unchecked(self._nest(self._gather(positions)), len(positions))

    def copied(self, positions: np.ndarray) -> Any:
        return self._nest(self._gather(positions))

    def saved(self, positions: np.ndarray) -> Any:
        return TransitionBatch.unchecked(self._nest(self._pick(positions)), len(positions))

    def _pick(self, positions: np.ndarray) -> list[Any]:
        """One leaf per field that has memory here, to be read from it later; ``None`` for the others."""
        leaves: list[Any] = []
        for field, array in zip(self.fields, self._arrays):
            if field.kind == OBJECTS:
                leaves.append([array[position] for position in positions.tolist()])
            else:
                tensor = field.kind == TENSOR
                leaves.append(None if array is None else PickedRows(array, positions, tensor, field.recast))
        return leaves

    def _gather(self, positions: np.ndarray) -> list[Any]:
        """One leaf per field, copied."""
        targets = self._targets(len(positions)) if self._large else {}
        self._gather_large(positions, targets)
        leaves: list[Any] = []
        for number, (field, array) in enumerate(zip(self.fields, self._arrays)):
            if number in targets:
                leaves.append(field.restore(targets[number]))
            elif field.kind == OBJECTS:
                leaves.append([array[position] for position in positions.tolist()])
            else:
                leaves.append(field.restore(array.take(positions, 0)))
        return leaves

    def _targets(self, count: int) -> dict[int, np.ndarray]:
        """Memory for ``count`` rows of each large field, by number of the field: all of it one piece.

        The allocator takes a piece of some megabytes, when it is freed, as a sign to keep such pieces for the next
        request. Of several it gives some back to the system, and taking those anew, page by page, costs more than
        the copy.
        """
        sizes = [-(-count * self.fields[i].row_bytes // _ALIGN) * _ALIGN for i in self._large]
        block = np.empty(sum(sizes), np.uint8)
        targets, begin = {}, 0
        for i, size in zip(self._large, sizes):
            field = self.fields[i]
            part = block[begin : begin + count * field.row_bytes]
            targets[i] = part.view(field.stored_dtype).reshape(count, *field.shape)
            begin += size
        return targets

    def _gather_large(self, positions: np.ndarray, targets: dict[int, np.ndarray]) -> None:
        """Copy the rows of large fields. Positions are known to be held; with 'clip' numpy needs no copy of its own."""
        for i, target in targets.items():
            if self._arrays[i] is not None:
                self._arrays[i].take(positions, 0, target, "clip")

    def _nest(self, leaves: list[Any]) -> dict[str, Any]:
        """Leaves by field as nested columns."""
        if self._flat:
            return {field.path[0]: leaf for field, leaf in zip(self.fields, leaves)}
        result: dict[str, Any] = {}
        for field, leaf in zip(self.fields, leaves):
            inner = result
            for key in field.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[field.path[-1]] = leaf
        return result

    def erase(self, positions: np.ndarray) -> None:
        for field, array in zip(self.fields, self._arrays):
            if field.kind == OBJECTS:
                for position in positions.tolist():
                    array[position] = None

    @property
    def nbytes(self) -> int:
        kept = [field for field, array in zip(self.fields, self._arrays) if array is not None]
        return self.capacity * sum(_REFERENCE_BYTES if field.kind == OBJECTS else field.row_bytes for field in kept)

    def close(self) -> None:
        if self._mapped is not None:
            self._mapped.close()
