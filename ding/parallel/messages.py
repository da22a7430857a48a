"""Encoding of arrays in JSON messages, each as a single string.

A batch has only a few numbers per row, but as JSON lists they would dominate the cost of writing, validating and
reading a message; as base64 of their bytes the cost is negligible. Decoding validates dtype and length. Related arrays
are packed together, several batches per message and the priorities of several train iterations per array, because the
cost per array does not depend on its length.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_DTYPES = {code: np.dtype(code) for code in ("<i4", "<i8", "<f8")}
_MAX_VALUES = 1 << 22
#: Approximate number of rows that are packed together, and read together by a learner.
GROUP_ROWS = 512


def pack_array(array: npt.ArrayLike) -> dict[str, str]:
    """Encode numbers as ``{'dtype', 'b64'}``: integers as int64 (int32 is kept), others as float64."""
    array = np.asarray(array)
    code = "<i4" if array.dtype == np.int32 else "<i8" if array.dtype.kind in "iub" else "<f8"
    return {"dtype": code, "b64": base64.b64encode(np.ascontiguousarray(array, dtype=code).tobytes()).decode()}


def unpack_array(packed: object) -> np.ndarray:
    """Return the flat array of :func:`pack_array`; lists of numbers are accepted, too.

    Raises:
        ValueError: ``packed`` is neither.
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


#: Keys of a batch with one number per row; ``rows`` has two per row.
ROW_KEYS = ("unique_id", "buffer_idx", "priority", "IS", "staleness", "use")


def pack_batches(batches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Encode sampled batches as JSON messages, each with several batches of equal size and equal keys."""
    messages, begin = [], 0
    while begin < len(batches):
        size, keys = _form(batches[begin])
        end, most = begin + 1, begin + max(1, GROUP_ROWS // max(1, size))
        while end < min(most, len(batches)) and _form(batches[end]) == (size, keys):
            end += 1
        messages.append(_pack_group(batches[begin:end], keys))
        begin = end
    return messages


def _form(batch: Mapping[str, Any]) -> tuple[int, list[str]]:
    return len(batch["rows"]), [key for key in ROW_KEYS if batch.get(key) is not None]


def _pack_group(batches: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> dict[str, Any]:
    chunks, rows = joined_rows(batches)
    packed = {key: pack_array(np.concatenate([batch[key] for batch in batches])) for key in keys}
    numbers = [batch["batch"] for batch in batches]
    return {"batch": numbers, "chunks": chunks, "rows": pack_array(rows.astype(np.int32)), **packed}


def joined_rows(batches: Sequence[Mapping[str, Any]]) -> tuple[list[str], np.ndarray]:
    """Concatenate chunks and rows of several batches. Batches may share their list of chunks."""
    begins: dict[int, int] = {}
    chunks: list[str] = []
    rows = []
    for batch in batches:
        begin = begins.setdefault(id(batch["chunks"]), len(chunks))
        if begin == len(chunks):
            chunks += batch["chunks"]
        rows.append(np.asarray(batch["rows"]) + (begin, 0) if begin else batch["rows"])
    return chunks, np.concatenate(rows)


def unpack_batches(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the batches of :func:`pack_batches`, in order: ``rows`` int64 ``[B, 2]``, the other keys ``[B]``.

    Batches of one message share ``chunks``.

    Raises:
        ValueError: A message is malformed.
    """
    return [batch for message in messages for batch in _unpack_group(message)]


def _unpack_group(message: object) -> list[dict[str, Any]]:
    if not isinstance(message, Mapping) or not {"batch", "chunks", "rows"} <= message.keys():
        found = sorted(map(str, message)) if isinstance(message, Mapping) else type(message).__name__
        raise ValueError(f"a message of batches needs 'batch', 'chunks' and 'rows', found {found}")
    numbers, chunks = message["batch"], message["chunks"]
    if not isinstance(numbers, list) or not numbers or any(type(number) is not int for number in numbers):
        raise ValueError("a message of batches needs a list of ints as 'batch'")
    if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
        raise ValueError("a message of batches needs a list of ids as 'chunks'")
    rows = unpack_array(message["rows"])
    if rows.size % (2 * len(numbers)) or rows.dtype.kind not in "iu":
        raise ValueError(f"the 'rows' of a message must be pairs of integers, equally many for {len(numbers)} batches")
    columns = {key: unpack_array(message[key]) for key in ROW_KEYS if message.get(key) is not None}
    columns["rows"] = rows.astype(np.int64).reshape(-1, 2)
    total, size = len(columns["rows"]), len(columns["rows"]) // len(numbers)
    for key, column in columns.items():
        if len(column) != total:
            raise ValueError(f"batches of {total} rows have {len(column)} entries under {key!r}")
    batches = []
    for position, number in enumerate(numbers):
        own = slice(position * size, (position + 1) * size)
        batches.append({"batch": number, "chunks": chunks, **{key: column[own] for key, column in columns.items()}})
    return batches


def pack_infos(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``infos`` (and ``priorities``) of a report, from ``{'seq', 'info'}`` of several train iterations.

    Priorities that cannot be concatenated stay in their infos.
    """
    priorities = [entry["info"].get("priority_info") or {} for entry in infos]
    keys = next((found.keys() for found in priorities if found), None)
    if keys is None or any(found and found.keys() != keys for found in priorities) or any(map(_has_gaps, priorities)):
        return {"infos": list(infos)}
    bare = [{**entry, "info": {**entry["info"], "priority_info": {}}} for entry in infos]
    arrays = {key: pack_array(np.concatenate([found[key] for found in priorities if found])) for key in keys}
    sizes = [len(next(iter(found.values()))) if found else 0 for found in priorities]
    return {"infos": bare, "priorities": {"sizes": sizes, "arrays": arrays}}


def _has_gaps(priorities: Mapping[str, Any]) -> bool:
    sizes = {len(values) for values in priorities.values()}
    return len(sizes) > 1 or any(isinstance(values, list) and None in values for values in priorities.values())


def unpack_infos(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return ``{'seq', 'info'}`` of each train iteration of a report, with concatenated priorities split into arrays.

    Raises:
        ValueError: An array is damaged, or its length does not match its sizes.
    """
    infos, packed = report.get("infos") or [], report.get("priorities")
    if packed is None:
        return list(infos)
    arrays = {key: unpack_array(value) for key, value in packed["arrays"].items()}
    sizes, total = packed["sizes"], sum(packed["sizes"])
    if len(sizes) != len(infos) or min(sizes) < 0 or any(len(array) != total for array in arrays.values()):
        raise ValueError(f"priorities of {len(sizes)} iterations do not fit the {len(infos)} infos of a report")
    result, begin = [], 0
    for entry, size in zip(infos, sizes):
        own = {key: array[begin : begin + size] for key, array in arrays.items()} if size else {}
        result.append({**entry, "info": {**entry["info"], "priority_info": own}})
        begin += size
    return result


def joined_priorities(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Concatenate the priorities of several infos, the latest last; return ``{}`` if that is not possible."""
    found = [info["priority_info"] for info in infos if info.get("priority_info")]
    if not found or any(one.keys() != found[0].keys() for one in found):
        return {}
    if not all(isinstance(values, np.ndarray) for one in found for values in one.values()):
        return {}
    return {key: np.concatenate([one[key] for one in found]) for key in found[0]}
