"""Arrays within JSON messages, as one text each.

A batch has a handful of numbers per row. As JSON lists they cost more to write, check and read than the rest of a
message together; as base64 of their bytes they cost next to nothing. What is read is checked: a known dtype, the right
length, and no more than that.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

_DTYPES = {code: np.dtype(code) for code in ("<i4", "<i8", "<f8")}
_MAX_VALUES = 1 << 22


def pack_array(array: Any) -> dict[str, str]:
    """``{'dtype', 'b64'}`` of numbers: integers as int64 (int32 stays), others as float64."""
    array = np.asarray(array)
    code = "<i4" if array.dtype == np.int32 else "<i8" if array.dtype.kind in "iub" else "<f8"
    return {"dtype": code, "b64": base64.b64encode(np.ascontiguousarray(array, dtype=code).tobytes()).decode()}


def unpack_array(packed: Any) -> np.ndarray:
    """The flat array of :func:`pack_array`; lists of numbers are taken, too.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(packed, (list, np.ndarray)):
        array = np.asarray(packed)
        if array.dtype.kind not in "iufb":
            raise ValueError("an array of a message must hold numbers")
        return array
    if not isinstance(packed, Mapping) or packed.get("dtype") not in _DTYPES or not isinstance(packed.get("b64"), str):
        raise ValueError(f"an array of a message needs 'b64' and a 'dtype' out of {sorted(_DTYPES)}")
    if len(packed["b64"]) > _MAX_VALUES * 11:
        raise ValueError(f"an array of a message may have {_MAX_VALUES} values at most")
    try:
        raw = base64.b64decode(packed["b64"], validate=True)
        return np.frombuffer(raw, dtype=_DTYPES[packed["dtype"]]).copy()
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"an array of a message is damaged: {error}") from error


#: Keys of a batch with one number per row; ``rows`` has two.
ROW_KEYS = ("unique_id", "buffer_idx", "priority", "IS", "staleness", "use")


def pack_batch(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A sampled batch as JSON."""
    packed = {key: pack_array(batch[key]) for key in ("rows", *ROW_KEYS) if batch.get(key) is not None}
    return {"batch": batch["batch"], "chunks": list(batch["chunks"]), **packed}


def unpack_batch(message: Any) -> dict[str, Any]:
    """The batch of :func:`pack_batch`: ``rows`` int64 ``[B, 2]``, the others ``[B]``.

    Raises:
        ValueError: it has not the form of a batch.
    """
    if not isinstance(message, Mapping) or not {"batch", "chunks", "rows"} <= message.keys():
        found = sorted(map(str, message)) if isinstance(message, Mapping) else type(message).__name__
        raise ValueError(f"a batch needs 'batch', 'chunks' and 'rows', found {found}")
    number, chunks = message["batch"], message["chunks"]
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"a batch needs an int 'batch', found {number!r}")
    if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
        raise ValueError("a batch needs a list of ids as 'chunks'")
    rows = unpack_array(message["rows"])
    if rows.size % 2 or rows.dtype.kind not in "iu":
        raise ValueError("the 'rows' of a batch must be pairs of integers")
    batch: dict[str, Any] = {"batch": number, "chunks": chunks, "rows": rows.astype(np.int64).reshape(-1, 2)}
    for key in ROW_KEYS:
        if message.get(key) is not None:
            batch[key] = unpack_array(message[key])
            if len(batch[key]) != len(batch["rows"]):
                raise ValueError(f"a batch of {len(batch['rows'])} rows has {len(batch[key])} entries under {key!r}")
    return batch


def pack_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """A learn info as JSON, with its priorities packed."""
    priorities = info.get("priority_info") or {}
    if not priorities or any(any(value is None for value in values) for values in priorities.values()):
        return dict(info)
    return {**info, "priority_info": {key: pack_array(values) for key, values in priorities.items()}}


def unpack_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """The learn info of :func:`pack_info`, with arrays for lists; one that is not packed stays as it is.

    Raises:
        ValueError: a damaged array.
    """
    priorities = info.get("priority_info") or {}
    unpacked = {key: unpack_array(value) if isinstance(value, Mapping) else value for key, value in priorities.items()}
    return {**info, "priority_info": unpacked}
