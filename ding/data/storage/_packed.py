"""Packed rows: small fields side by side in one record, so that one copy takes all of them."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ding.data.storage._schema import OBJECTS, TENSOR, Field, fields_of

# Fields of at most so many bytes per row share one record: a read then gathers them all at once. Copying of larger
# rows is bound by memory, and records of them would spread the small fields over many pages.
PACKED_BYTES = 512


def packs(field: Field) -> bool:
    """Whether a field is one for records."""
    # A complex number is aligned as its parts are, so a record may give it a stride that torch does not take.
    return (
        field.dtype is not None
        and 0 < field.row_bytes <= PACKED_BYTES
        and field.dtype.itemsize <= field.dtype.alignment
    )


def makes_records(fields: tuple[Field, ...]) -> bool:
    """Whether rows of these fields are records and nothing else: flat, small, of dtypes that need no recast."""
    return all(
        len(field.path) == 1 and field.kind != OBJECTS and field.recast is None and packs(field) for field in fields
    )


class RecordLayout:
    """Where fields that :func:`packs` admits lie in a record. Made by :func:`record_layout`.

    Attributes:
        fields: the fields, in the order of the columns.
        keys: names of the fields in :attr:`dtype`, in the same order.
        dtype: of the record.
        item: the record as one piece. Numpy copies such items in one go, but records field by field.
        names: the first keys of the fields.
        plan: per field its first key, its key in :attr:`dtype` and whether its column is a tensor.
    """

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.keys = tuple(f"f{i}" for i in range(len(fields)))
        # Fields of one dtype side by side: several of them can then be written at once.
        order = sorted(zip(fields, self.keys), key=lambda one: (-one[0].stored_dtype.itemsize, one[0].stored_dtype.str))
        self.dtype = np.dtype([(key, field.stored_dtype, field.shape) for field, key in order], align=True)
        self.item = np.dtype((np.void, self.dtype.itemsize))
        self.names = [field.path[0] for field in fields]
        self.plan = [(field.path[0], key, field.kind == TENSOR) for field, key in zip(fields, self.keys)]

    def items_of(self, records: np.ndarray) -> np.ndarray:
        """The memory of ``records`` as an array of :attr:`item`."""
        return np.ndarray(records.shape, self.item, records)

    def columns_of(self, records: np.ndarray) -> dict[str, Any]:
        """The columns of flat rows, as views of ``records``."""
        from_numpy = torch.from_numpy
        return {name: from_numpy(records[key]) if tensor else records[key] for name, key, tensor in self.plan}


@functools.lru_cache(maxsize=256)
def record_layout(fields: tuple[Field, ...]) -> RecordLayout:
    """The layout of these fields: one object for equal fields, so that ``is`` tells whether two layouts are equal.

    One that was forgotten in between is another object; rows are then only copied in a slower way.
    """
    return RecordLayout(fields)


def record_layout_of(columns: dict[str, Any]) -> RecordLayout | None:
    """The layout of the records that a storage would make of such rows; ``None`` when they would not be records only.

    Raises:
        SchemaError: there is no column.
    """
    fields = fields_of(columns)
    return record_layout(fields) if makes_records(fields) else None


class PackedRows:
    """Rows as records, see :func:`record_layout_of`.

    Args:
        layout: of the records.
        items: ``[N]`` of ``layout.item``.
    """

    __slots__ = ("items", "layout")

    def __init__(self, layout: RecordLayout, items: np.ndarray) -> None:
        self.layout = layout
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: slice) -> "PackedRows":
        return PackedRows(self.layout, self.items[part])

    def joined(self, others: "Sequence[PackedRows | None]") -> "PackedRows | None":
        """These rows and the others; ``None`` when the others are not all packed in the same way."""
        items = [self.items]
        for other in others:
            if other is None or other.layout is not self.layout:
                return None
            items.append(other.items)
        return PackedRows(self.layout, np.concatenate(items))

    def get(self, name: str) -> np.ndarray | None:
        """One column as an array that shares memory with the records; ``None`` when there is no such field."""
        if name not in self.layout.names:
            return None
        return self.items.view(self.layout.dtype)[self.layout.keys[self.layout.names.index(name)]]

    def columns(self) -> dict[str, Any]:
        """Columns that share memory with the records."""
        return self.layout.columns_of(self.items.view(self.layout.dtype))
