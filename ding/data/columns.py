"""Columns: the arrays behind a batch, and the basic operations on them.

A column is a ``torch.Tensor``, a ``numpy.ndarray`` or a ``list`` whose first axis is the row, or a ``dict`` of columns.
The type of a leaf determines the type of its rows:

=====================================  ===========================================================
leaf                                   a row of it
=====================================  ===========================================================
``torch.Tensor`` ``[N, ...]``          tensor ``[...]`` that shares memory
``numpy.ndarray`` ``[N]``              Python ``bool``, ``int`` or ``float``
``numpy.ndarray`` ``[N, d, ...]``      array ``[d, ...]`` that shares memory
``list`` of length N                   the object itself
=====================================  ===========================================================
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ding.utils.nested import Tree, is_ignored_key, iter_leaves

Leaf: TypeAlias = torch.Tensor | np.ndarray | list[Any]
Columns: TypeAlias = torch.Tensor | np.ndarray | list[Any] | dict[str, Any]

# Stacking would lose the mask of one and an axis of the other.
_NO_PLAIN_ARRAYS = (np.ma.MaskedArray, np.matrix)


class DataError(Exception):
    """Base class of the errors of :mod:`ding.data`."""


class SchemaError(DataError, ValueError):
    """Rows or columns do not match; the message names the field."""


def num_rows(columns: Columns) -> int:
    """Return the number of rows of the first leaf.

    Raises:
        SchemaError: There is no leaf, or a leaf has no row axis.
    """
    while isinstance(columns, dict):
        if not columns:
            raise SchemaError("a batch needs at least one column to know its number of rows")
        columns = next(iter(columns.values()))
    if not isinstance(columns, list) and columns.ndim == 0:
        raise SchemaError("a column needs a row axis, found a 0-dimensional array")
    return len(columns)


def check_rows(columns: Columns, expected: int) -> None:
    """Raise a :class:`SchemaError` unless each leaf is a column of ``expected`` rows."""
    for path, leaf in iter_leaves(columns):
        name = path or "<value>"
        if not isinstance(leaf, (torch.Tensor, np.ndarray, list)):
            raise SchemaError(
                f"column {name!r} must be a tensor, an array, a list or a dict, found {type(leaf).__name__}"
            )
        if not isinstance(leaf, list) and leaf.ndim == 0:
            raise SchemaError(f"column {name!r} needs a row axis, found a 0-dimensional array")
        if len(leaf) != expected:
            raise SchemaError(f"column {name!r} has {len(leaf)} rows, expected {expected}")


def row_list(columns: Columns, length: int) -> list[Any]:
    """Return all rows: dicts for a dict of columns, else according to the leaf type."""
    if isinstance(columns, dict):
        if not columns:
            return [{} for _ in range(length)]
        keys = tuple(columns)
        per_key = [row_list(value, length) for value in columns.values()]
        return [dict(zip(keys, values)) for values in zip(*per_key)]
    if isinstance(columns, torch.Tensor):
        return list(columns.unbind(0)) if length else []
    if isinstance(columns, np.ndarray):
        return columns.tolist() if columns.ndim == 1 else list(columns)
    return list(columns)


def row_at(columns: Columns, position: int) -> Tree:
    """Return one row; see :func:`row_list`."""
    if isinstance(columns, dict):
        return {key: row_at(value, position) for key, value in columns.items()}
    if isinstance(columns, np.ndarray) and columns.ndim == 1:
        return columns[position].item()
    return columns[position]


def concat(parts: Sequence[Any], path: str = "", whole: Mapping[str, np.ndarray] | None = None) -> Columns:
    """Concatenate along the rows.

    Args:
        parts: columns, at least one.
        path: Position of the columns, for messages.
        whole: By path, views of arrays to which parts were written consecutively; if a view covers all parts, it is
            returned instead of a copy.

    Raises:
        SchemaError: the parts differ in fields, leaf types, dtypes or row shapes; the message names the first such
            field.
    """
    first = parts[0]
    name = path or "<value>"
    if isinstance(first, dict):
        for part in parts[1:]:
            if not isinstance(part, dict) or part.keys() != first.keys():
                found = sorted(map(str, part)) if isinstance(part, dict) else type(part).__name__
                raise SchemaError(
                    f"cannot concatenate at {name!r}: fields {sorted(map(str, first))} and {found} differ"
                )
        return {
            key: concat([part[key] for part in parts], f"{path}.{key}" if path else str(key), whole) for key in first
        }
    if isinstance(first, list):
        if not all(isinstance(part, list) for part in parts):
            raise SchemaError(f"cannot concatenate {name!r}: a list of objects and an array")
        return [item for part in parts for item in part]
    is_tensor, dtype, shape = isinstance(first, torch.Tensor), first.dtype, first.shape[1:]
    kind = torch.Tensor if is_tensor else np.ndarray
    for part in parts:
        if not isinstance(part, kind) or part.dtype != dtype or part.shape[1:] != shape:
            raise SchemaError(f"cannot concatenate {name!r}: {describe_leaf(first)} and {describe_leaf(part)} differ")
    view = whole.get(path) if whole else None
    if view is not None and len(view) == sum(map(len, parts)) and all(part.base is view.base for part in parts):
        return view
    return torch.cat(list(parts)) if is_tensor else np.concatenate(parts)


def describe_leaf(leaf: object) -> str:
    """Return a short description for messages: kind, dtype and row shape."""
    if isinstance(leaf, torch.Tensor):
        return f"tensor {str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape[1:])}"
    if isinstance(leaf, np.ndarray):
        return f"array {leaf.dtype}{list(leaf.shape[1:])}"
    return f"{type(leaf).__name__} of objects" if isinstance(leaf, list) else type(leaf).__name__


def stack_rows(rows: Sequence[Any], path: str = "") -> Columns:
    """Columnise row values; the inverse of :func:`row_list`.

    Dicts become a dict of columns, tensors a tensor, arrays an array, Python and numpy scalars a 1-D array. Values
    without an array form (``None``, strings, lists, tuples, empty dicts, masked arrays, mixed kinds) become a ``list``
    column, as do the values of keys that begin with ``collate_ignore``.

    Raises:
        SchemaError: the rows have different fields, or arrays of different shape or dtype; the message names field and
            row.
    """
    first = rows[0]
    if isinstance(first, Mapping):
        return _stack_dicts(rows, path)
    if isinstance(first, torch.Tensor):
        if not all(isinstance(row, torch.Tensor) for row in rows):
            return list(rows)
        _check_uniform(rows, path)
        return torch.stack(list(rows))
    if isinstance(first, np.ndarray) and first.ndim > 0:
        plain = all(isinstance(row, np.ndarray) and row.ndim > 0 for row in rows)
        if not plain or first.dtype.hasobject or isinstance(first, _NO_PLAIN_ARRAYS):
            return list(rows)
        _check_uniform(rows, path)
        return np.array(rows)  # np.stack is three times slower for small rows
    return _stack_scalars(rows)


def _stack_dicts(rows: Sequence[Any], path: str) -> Columns:
    first = rows[0]
    keys = first.keys()
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            return list(rows)
        if row.keys() != keys:
            missing = sorted(str(key) for key in keys - row.keys())
            extra = sorted(str(key) for key in row.keys() - keys)
            where = f" in {path!r}" if path else ""
            raise SchemaError(
                f"row {position}{where} differs from row 0: missing fields {missing}, extra fields {extra}"
            )
    if path and not keys:
        # A dict without columns would lose the number of rows.
        return [{} for _ in rows]
    return {
        key: [row[key] for row in rows]
        if is_ignored_key(key)
        else stack_rows([row[key] for row in rows], f"{path}.{key}" if path else str(key))
        for key in keys
    }


def _check_uniform(rows: Sequence[Any], path: str) -> None:
    shape, dtype = rows[0].shape, rows[0].dtype
    for position, row in enumerate(rows):
        if row.shape != shape or row.dtype != dtype:
            raise SchemaError(
                f"field {path or '<value>'!r} of row {position} has shape {tuple(row.shape)} and dtype {row.dtype}, "
                f"expected {tuple(shape)} and {dtype} as in row 0"
            )


def _stack_scalars(rows: Sequence[Any]) -> Columns:
    plain = [
        row.item() if isinstance(row, np.generic) or (isinstance(row, np.ndarray) and row.ndim == 0) else row
        for row in rows
    ]
    kinds = {type(value) for value in plain}
    if kinds == {bool}:
        return np.array(plain, dtype=np.bool_)
    if kinds == {int}:
        try:
            return np.array(plain, dtype=np.int64)
        except OverflowError:
            return _as_objects(rows)
    if kinds == {float}:
        return np.array(plain, dtype=np.float64)
    # An int among floats would be returned as a float: such rows stay objects, which preserves the types.
    return _as_objects(rows)


def _as_objects(rows: Sequence[Any]) -> list[Any]:
    """Return the rows, with arrays of one number replaced by that number: these are immutable."""
    return [row[()] if isinstance(row, np.ndarray) and row.ndim == 0 else row for row in rows]
