"""Arrays that begin at a cache line."""

import math
from typing import Any

import numpy as np

_LINE_BYTES = 64


def aligned_zeros(shape: "int | tuple[int, ...]", dtype: Any) -> np.ndarray:
    """Zeros whose first byte is the first of a cache line, where numpy's own large arrays begin at byte 16.

    What is picked at random from a large array costs as many accesses to memory as lines it lies in.
    """
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else shape
    num_bytes = math.prod(shape) * dtype.itemsize
    raw = np.zeros(num_bytes + _LINE_BYTES, np.uint8)
    offset = -raw.ctypes.data % _LINE_BYTES
    return raw[offset : offset + num_bytes].view(dtype).reshape(shape)
