"""What all files in the ``safetensors`` format share: the names of dtypes, and the check of where arrays lie."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

# As many axes as torch's arrays and older numpy's may have.
MAX_DIMS = 32
DTYPES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


def checked_layout(header: Mapping[str, Any], nbytes: int) -> list[tuple[np.dtype, tuple[int, ...], int]]:
    """dtype, shape and first byte of the arrays ``a0``, ``a1``, ..., which together cover ``nbytes`` exactly.

    Args:
        header: the entries of the arrays, nothing else.
        nbytes: size of what follows the header.

    Raises:
        ValueError: an entry cannot be read or contradicts itself, or the arrays overlap, leave gaps, or do not end
            where the file does.
    """
    layout = []
    spans = []
    for number in range(len(header)):
        entry = header.get(f"a{number}")
        if not isinstance(entry, Mapping) or not isinstance(entry.get("dtype"), str) or entry["dtype"] not in DTYPES:
            raise ValueError(f"array {number} is missing or has an unknown dtype")
        dtype = np.dtype(DTYPES[entry["dtype"]])
        shape = _whole_numbers(entry.get("shape"))
        span = _whole_numbers(entry.get("data_offsets"))
        if shape is None or len(shape) > MAX_DIMS or span is None or len(span) != 2:
            raise ValueError(f"shape or place of array {number} cannot be read")
        if span[1] - span[0] != dtype.itemsize * math.prod(shape):
            raise ValueError(f"array {number} does not have the size that its shape says")
        if span[1] > nbytes:
            raise ValueError(f"array {number} ends at byte {span[1]} of {nbytes}")
        layout.append((dtype, shape, span[0]))
        spans.append(span)
    at = 0
    for start, stop in sorted(spans):
        if start != at:
            raise ValueError(f"its arrays overlap or leave gaps at byte {at}")
        at = stop
    if at != nbytes:
        raise ValueError(f"{nbytes - at} bytes belong to no array")
    return layout


def _whole_numbers(value: Any) -> "tuple[int, ...] | None":
    if not isinstance(value, list) or any(type(item) is not int or item < 0 for item in value):
        return None
    return tuple(value)
