"""Memory maps that are larger than memory."""

import contextlib
import mmap
import sys
from typing import BinaryIO

import numpy as np

# Private maps count as fully written, so the system refuses large ones unless they have this Linux flag.
NORESERVE = 0x4000


def private_map(file: BinaryIO, size: int) -> mmap.mmap:
    """Return the first ``size`` bytes of a file; written pages become private to this process."""
    if not sys.platform.startswith("linux"):
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    return mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE | NORESERVE)


def reserve(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array whose memory is allocated page by page on write, even if all of it would not fit."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not sys.platform.startswith("linux") or size < mmap.PAGESIZE:
        return np.empty(shape, dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    # Ask for huge pages, as numpy does: frames are read in random order. Kernels without them refuse.
    with contextlib.suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
