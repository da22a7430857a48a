"""Rows of one schema in preallocated ring columns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ding.data._aligned import aligned_zeros
from ding.data._tree_codec import PickedRows
from ding.data.storage._packed import PackedRows, makes_records, packs, record_layout
from ding.data.storage._record_writer import RecordWriter
from ding.data.storage._schema import OBJECTS, TENSOR, Field, check_paths, check_values, dig
from ding.data.storage.base import Storage
from ding.data.storage.mapped import MappedFiles
from ding.data.transition_batch import TransitionBatch

# Arrays in one piece of memory begin at multiples of so many bytes.
_ALIGN = 64

Allocate = Callable[[str, "tuple[int, ...]", np.dtype], np.ndarray]


def in_memory(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeroed memory, which the system provides page by page as it is written."""
    return aligned_zeros(shape, dtype)


class ColumnStorage(Storage):
    """One array per field, and one record array for all small fields.

    A batch is read with one gather of the records (its fields are strided views of that copy) and one of each large
    field. A batch is written with one slice assignment per field, two where it wraps around.

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
        self._arrays: list[Any] = [None] * len(fields)
        self._records: np.ndarray | None = None
        self._packed = [i for i in range(len(fields)) if self._in_records(i)]
        self._layout = record_layout(tuple(fields[i] for i in self._packed))
        if self._packed:
            self._records = allocate("records", (capacity,), self._layout.dtype)
            for i, key in zip(self._packed, self._layout.keys):
                self._arrays[i] = self._records[key]
        for i, field in enumerate(fields):
            if field.kind == OBJECTS:
                self._arrays[i] = [None] * capacity
            elif self._arrays[i] is None and self._keeps(i):
                self._arrays[i] = allocate(field.name, (capacity, *field.shape), field.stored_dtype)
        self._make_plans()

    def _keeps(self, number: int) -> bool:
        """Whether a field has an array of its own here."""
        return True

    def _in_records(self, number: int) -> bool:
        return self._keeps(number) and packs(self.fields[number])

    def _make_plans(self) -> None:
        fields = self.fields
        self._flat = all(len(field.path) == 1 for field in fields)
        self._top_keys = [field.path[0] for field in fields]
        self._simple = makes_records(fields) and len(self._packed) == len(fields)
        # Fields with an array of their own here or, elided, elsewhere.
        self._large = [i for i, field in enumerate(fields) if field.kind != OBJECTS and not self._in_records(i)]
        # For whoever wants to do without the calls of write(): it does nothing, and says so, unless rows fit exactly.
        self.quick_writer: RecordWriter | _WriterWithinSpace | None = None
        if self._simple and self._records is not None:
            writer = RecordWriter(self._records, self._layout)
            self.quick_writer = writer if self._mapped is None else _WriterWithinSpace(writer)

    # ------------------------------------------------------------------ write

    def storable(self, batch: TransitionBatch) -> "PackedRows | dict[str, Any]":
        packed = batch.packed
        return packed if packed is not None and self._simple and packed.layout is self._layout else batch.columns

    def write(self, start: int, rows: "PackedRows | dict[str, Any]", count: int) -> None:
        writer = self.quick_writer
        if writer is not None and start + count <= self.capacity and writer.write(start, rows, count):
            return
        if isinstance(rows, PackedRows):
            rows = rows.columns()
        leaves = self._checked(rows, count)
        if self._mapped is not None:
            self._reserve(self._mapped, start, count)
        self._put(start, count, leaves)

    def _reserve(self, files: MappedFiles, start: int, count: int) -> None:
        """Have space on the disk for what is about to be written, or raise :class:`OSError`."""
        rows = min(start + count, self.capacity)
        if rows <= self._reserved_rows:
            return
        arrays = (self._records, *(self._arrays[i] for i in self._large))
        self._reserved_rows = min((files.reserve(array, rows) for array in arrays if array is not None), default=rows)
        if isinstance(self.quick_writer, _WriterWithinSpace):
            self.quick_writer.rows = self._reserved_rows
            if self._reserved_rows == self.capacity:
                self.quick_writer = self.quick_writer.writer

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

    def _checked(self, columns: dict[str, Any], count: int) -> list[Any]:
        check_paths(self.fields, columns)
        return [field.check(dig(columns, field.path), count) for field in self.fields]

    def check(self, columns: dict[str, Any], count: int) -> None:
        check_values(self.fields, columns, count)

    # ------------------------------------------------------------------ read

    def read(self, positions: np.ndarray) -> TransitionBatch:
        return TransitionBatch.unchecked(self.read_columns(positions), len(positions))

    def read_columns(self, positions: np.ndarray) -> dict[str, Any]:
        """The columns of :meth:`read`, in a new dict."""
        if self._simple:
            return self._layout.columns_of(self._records.take(positions))  # type: ignore[union-attr]
        return self._nest(self.gather(positions))

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

    def gather(self, positions: np.ndarray) -> list[Any]:
        """One leaf per field, copied."""
        leaves: list[Any] = [None] * len(self.fields)
        if self._records is not None:
            records = self._records.take(positions)
            for i, key in zip(self._packed, self._layout.keys):
                leaves[i] = records[key]
        targets = self._targets(len(positions))
        self._gather_large(positions, targets)
        for i, target in targets.items():
            leaves[i] = target
        for i, field in enumerate(self.fields):
            if field.kind == OBJECTS:
                array = self._arrays[i]
                leaves[i] = [array[position] for position in positions.tolist()]
            else:
                leaves[i] = field.restore(leaves[i])
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
        if self._flat:
            return dict(zip(self._top_keys, leaves))
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
        own = [field for i, field in enumerate(self.fields) if self._keeps(i) and not packs(field)]
        records = 0 if self._records is None else self._records.itemsize
        return self.capacity * (records + sum(field.row_bytes if field.dtype is not None else 8 for field in own))

    def close(self) -> None:
        if self._mapped is not None:
            self._mapped.close()


class _WriterWithinSpace:
    """A :class:`RecordWriter` for records in a file: it writes only where there is space on the disk already."""

    def __init__(self, writer: RecordWriter) -> None:
        self.writer = writer
        self.rows = 0

    def write(self, start: int, rows: "PackedRows | dict[str, Any]", count: int) -> bool:
        """See :meth:`RecordWriter.write`."""
        return start + count <= self.rows and self.writer.write(start, rows, count)
