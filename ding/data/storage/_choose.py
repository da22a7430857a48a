"""Which storage the first rows get."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ding.data.columns import SchemaError, stack_rows
from ding.data.storage._schema import fields_of
from ding.data.storage.base import Storage
from ding.data.storage.column_storage import ColumnStorage
from ding.data.storage.object_storage import ObjectStorage


@dataclass(frozen=True)
class StorageOptions:
    """How rows are kept.

    Args:
        mixed_rows: turn to objects when rows come that do not fit, instead of raising.
    """

    mixed_rows: bool = False


def make_storage(rows: "dict[str, Any] | list[Any]", capacity: int, options: StorageOptions) -> Storage:
    """Columns for rows of one schema, a list of objects for anything else.

    Args:
        rows: columns, or a list of elements of any type.
        capacity: number of slots.
        options: how rows are kept.
    """
    try:
        columns = rows if isinstance(rows, dict) else columns_of(rows)
        fields = fields_of(columns)
    except SchemaError:
        return ObjectStorage(capacity)
    return ColumnStorage(capacity, fields)


def columns_of(rows: list[Any]) -> dict[str, Any]:
    """The columns of dicts of one schema.

    Raises:
        SchemaError: there are no rows, they are no dicts, or they differ in fields, shapes or dtypes.
    """
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaError(f"row {number} is a {type(row).__name__}, the buffer stores dicts")
    columns = stack_rows(rows) if rows else {}
    if not isinstance(columns, dict) or not columns:
        raise SchemaError("rows without fields cannot be stored as columns")
    return columns
