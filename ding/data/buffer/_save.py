"""The contents of a buffer as a safe file."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ding.data.buffer._records import MISSING
from ding.data.columns import SchemaError, row_list, stack_rows
from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.data.storage import is_elided

_KIND = "deque_buffer"
_KEYS = frozenset(
    [
        "token",
        "serials",
        "layout",
        "next_serial",
        "push_count",
        "row_places",
        "columns",
        "row_meta",
        "objects",
        "object_metas",
    ]
)


def write_contents(path: "str | os.PathLike[str]", contents: Mapping[str, Any]) -> None:
    """Write the output of ``RecordCore.contents``.

    Raises:
        SafeFileError: An object or a meta value has no safe form.
    """
    packed = dict(contents)
    packed["objects"] = _pack(contents["objects"])
    packed["object_metas"] = _pack(contents["object_metas"])
    packed["row_meta"] = [[key, *_pack_present(values)] for key, values in contents["row_meta"].items()]
    columns = contents["columns"]
    write_tree(path, packed, _KIND, columns["layout"] if is_elided(columns) else None)


def read_contents(path: "str | os.PathLike[str]") -> dict[str, Any]:
    """Read what :func:`write_contents` wrote.

    Raises:
        SafeFileError: the file is broken or foreign.
    """
    contents = read_tree(path, _KIND)
    if not isinstance(contents, dict) or not contents.keys() >= _KEYS:
        raise SafeFileError(f"{os.fspath(path)} does not hold the records of a DequeBuffer")
    contents["objects"] = _unpack(contents["objects"])
    contents["object_metas"] = _unpack(contents["object_metas"])
    contents["row_meta"] = {key: _unpack_present(present, packed) for key, present, packed in contents["row_meta"]}
    return contents


def _pack(items: list[Any]) -> dict[str, Any]:
    """Pack items of one form into columns: thousands of small arrays would make a large header."""
    try:
        columns = stack_rows(items) if items else []
    except SchemaError:
        columns = items
    # Columns return numpy numbers as plain ones, so these keep the long form.
    if any(isinstance(item, np.generic) for item in items):
        columns = items
    return {"count": len(items), "columns": columns}


def _unpack(packed: Mapping[str, Any]) -> list[Any]:
    return row_list(packed["columns"], packed["count"])


def _pack_present(values: "Sequence[object]") -> tuple[np.ndarray, dict[str, Any]]:
    present = np.array([value is not MISSING for value in values], dtype=np.bool_)
    return present, _pack([value for value in values if value is not MISSING])


def _unpack_present(present: np.ndarray, packed: Mapping[str, Any]) -> list[Any]:
    values: list[Any] = [MISSING] * len(present)
    for place, value in zip(np.flatnonzero(present).tolist(), _unpack(packed)):
        values[place] = value
    return values
