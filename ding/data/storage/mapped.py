"""Arrays in memory-mapped files."""

import contextlib
import itertools
import os
import re
import weakref

import numpy as np

_numbers = itertools.count()
# Of the name of a field, in that of its file.
_NAME_CHARS = 64


class MappedFiles:
    """Gives arrays that lie in files of a folder, for storages larger than memory.

    The files are scratch: sparse, named after this process, and removed when the storage that uses them is closed or
    collected, or when the process ends. They are no way to keep data; ``save_data`` is.

    Args:
        folder: where the files go; it is made.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self._stem = f"rows-{os.getpid()}-{next(_numbers)}"
        self._paths: list[str] = []
        self._finalizer = weakref.finalize(self, _remove, self._paths)

    def __call__(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A zeroed array in a new file."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if size == 0:
            return np.zeros(shape, dtype)
        tail = re.sub(r"[^0-9A-Za-z_.]", "_", name)[:_NAME_CHARS]
        path = os.path.join(self.folder, f"{self._stem}-{len(self._paths)}-{tail}.bin")
        raw = np.memmap(path, dtype=np.uint8, mode="w+", shape=(size,))
        self._paths.append(path)
        # A plain array over the map: indexing it makes no further `memmap` objects, which cost more than a gather.
        return np.asarray(raw).view(dtype).reshape(shape)

    def close(self) -> None:
        """Remove the files. Arrays that are still used stay readable until they are gone."""
        self._finalizer()


def _remove(paths: list[str]) -> None:
    while paths:
        with contextlib.suppress(FileNotFoundError):
            os.remove(paths.pop())
