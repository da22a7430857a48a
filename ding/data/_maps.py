"""Memory maps that are larger than memory."""

import mmap
import sys
from typing import BinaryIO

# Private maps count as if all of them were written, and large ones are refused, unless they are made with this flag
# of Linux.
NORESERVE = 0x4000


def private_map(file: BinaryIO, size: int) -> mmap.mmap:
    """The first ``size`` bytes of a file; a page that is written to becomes this process's own."""
    if not sys.platform.startswith("linux"):
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    return mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE | NORESERVE)
