"""Which storage the first rows get."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ding.data.columns import SchemaError, stack_rows
from ding.data.storage._schema import Field, fields_of
from ding.data.storage.base import RowStorage
from ding.data.storage.column_storage import ColumnStorage
from ding.data.storage.device_storage import DeviceStorage
from ding.data.storage.mapped import MappedFiles
from ding.data.storage.object_storage import ObjectStorage

# Observations of at least so many bytes are stored once by default; of smaller ones that would save little.
_ELIDED_BYTES = 513


@dataclass(frozen=True)
class StorageOptions:
    """How rows are kept.

    Args:
        mixed_rows: turn to objects when rows come that do not fit, instead of raising.
        elide_next_obs: store a ``next_obs`` that is the ``obs`` of another row once. ``'auto'``: for observations of
            more than 512 bytes; below, one gather of everything is faster, and little is saved.
        frame_stack: store each frame of observations ``[frame_stack, ...]`` once; 0: observations as they are.
        path: folder for memory-mapped files; ``None``: in memory.
        device: torch device that holds the rows; ``None``: the CPU, by numpy.

    Raises:
        ValueError: values that make no sense together.
    """

    mixed_rows: bool = False
    elide_next_obs: "bool | str" = "auto"
    frame_stack: int = 0
    path: "str | None" = None
    device: "str | None" = None

    def __post_init__(self) -> None:
        if self.elide_next_obs not in (True, False, "auto"):
            raise ValueError(f"storage.elide_next_obs must be True, False or 'auto', got {self.elide_next_obs!r}")
        if isinstance(self.frame_stack, bool) or not isinstance(self.frame_stack, int) or self.frame_stack < 0:
            raise ValueError(f"storage.frame_stack must be an int >= 0, got {self.frame_stack!r}")
        if self.device is not None and (self.path is not None or self.frame_stack > 1 or self.elide_next_obs is True):
            raise ValueError("storage.device cannot be combined with path, frame_stack or elide_next_obs=True")


def make_storage(rows: "dict[str, Any] | list[Any]", capacity: int, options: StorageOptions) -> RowStorage:
    """Columns for rows of one schema, a list of objects for anything else.

    Args:
        rows: columns, or a list of elements of any type.
        capacity: number of slots.
        options: how rows are kept.

    Raises:
        SchemaError: the rows do not fit to ``frame_stack``.
        OSError: the files of ``path`` cannot be made.
    """
    try:
        columns = rows if isinstance(rows, dict) else columns_of(rows)
        fields = fields_of(columns)
    except SchemaError:
        return ObjectStorage(capacity)
    if options.device is not None:
        return DeviceStorage(capacity, columns, options.device)
    smallest = {"auto": _ELIDED_BYTES, True: 1, False: sys.maxsize}[options.elide_next_obs]
    pairs = _elidable_pairs(fields, smallest, options.frame_stack)
    files = None if options.path is None else MappedFiles(options.path)
    try:
        return ColumnStorage(capacity, fields, files, pairs)
    except BaseException:
        if files is not None:
            files.close()
        raise


def columns_of(rows: list[Any]) -> dict[str, Any]:
    """Return the columns of dicts of one schema.

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


def _stack_of(field: Field, frame_stack: int) -> int:
    return frame_stack if frame_stack > 1 and len(field.shape) > 1 and field.shape[0] == frame_stack else 1


def _elidable_pairs(fields: tuple[Field, ...], smallest: int, frame_stack: int) -> list[tuple[int, int, int]]:
    """Return the numbers of the fields of ``obs`` and ``next_obs`` that can be stored once, and frames per observation.

    Args:
        fields: the schema.
        smallest: bytes per row from which on it is worth it.
        frame_stack: frames per observation; fields of such stacks are deduplicated whatever their size.

    Raises:
        SchemaError: ``frame_stack`` is given, and no observation has a first axis of that size.
    """
    numbers = {field.path: number for number, field in enumerate(fields)}
    pairs = []
    for number, field in enumerate(fields):
        other = numbers.get(("next_obs", *field.path[1:]))
        if field.path[0] != "obs" or other is None or field.dtype is None:
            continue
        same = (fields[other].dtype, fields[other].shape, fields[other].recast) == (
            field.dtype, field.shape, field.recast,
        )  # fmt: skip
        stack = _stack_of(field, frame_stack)
        if same and field.row_bytes and (field.row_bytes >= smallest or stack > 1):
            pairs.append((number, other, stack))
    if frame_stack > 1 and not any(stack > 1 for _, _, stack in pairs):
        found = {field.name: list(field.shape) for field in fields if field.path[0] in ("obs", "next_obs")}
        raise SchemaError(
            f"frame_stack={frame_stack} needs an obs and a next_obs with a first axis of {frame_stack}, found {found}"
        )
    return pairs
