"""Memory maps that are larger than memory."""

import contextlib
import mmap
import sys
from typing import BinaryIO

import numpy as np

# Private maps count as if all of them were written, and large ones are refused, unless they are made with this flag
# of Linux.
NORESERVE = 0x4000


def private_map(file: BinaryIO, size: int) -> mmap.mmap:
    """Return the first ``size`` bytes of a file; a page that is written to becomes this process's own."""
    if not sys.platform.startswith("linux"):
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    return mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE | NORESERVE)


def reserve(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array whose memory is taken page by page when it is written, even when all of it would not fit."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not sys.platform.startswith("linux") or size < mmap.PAGESIZE:
        return np.empty(shape, dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    # Numpy asks for huge pages, too: frames are read in random order. A kernel without them refuses.
    with contextlib.suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
