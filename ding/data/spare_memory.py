"""Memory of large arrays, used again."""

import weakref

import numpy as np

from ding.data._maps import reserve


class SpareMemory:
    """Large arrays whose memory is used again when nobody has the array, or a view or tensor of it, any more.

    The first write to fresh memory costs more than to copy frames there: the kernel clears it, page by page.

    Args:
        limit_bytes: the most memory that is kept; arrays beyond it are ordinary ones.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        # Memory, and the array over it, which all views have as their base.
        self._kept: list[tuple[memoryview, weakref.ref[np.ndarray]]] = []

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an array with any content."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        for i, (memory, user) in enumerate(self._kept):
            if user() is None and len(memory) == size:
                flat = np.frombuffer(memory, dtype=dtype)
                self._kept[i] = memory, weakref.ref(flat)
                return flat.reshape(shape)
        if not self._has_room(size):
            self._kept = [(memory, user) for memory, user in self._kept if user() is not None]
            if not self._has_room(size):
                return np.empty(shape, dtype)
        array = reserve(shape, dtype)
        owner = array.base
        if owner is not None and isinstance(owner.base, memoryview):  # Else it is no map.
            self._kept.append((owner.base, weakref.ref(owner)))
        return array

    def _has_room(self, size: int) -> bool:
        return sum(len(memory) for memory, _ in self._kept) + size <= self._limit_bytes
