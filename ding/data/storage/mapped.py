"""Arrays in memory-mapped files."""

import contextlib
import errno
import itertools
import mmap
import os
import re
import weakref
from dataclasses import dataclass

import numpy as np

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_numbers = itertools.count()
# Of the name of a field, in that of its file.
_NAME_CHARS = 64
_OURS = re.compile(r"rows-[0-9]+-[0-9]+-[0-9]+-[0-9A-Za-z_.]*\.bin")
# Space on the disk is taken in steps of so many bytes.
_STEP_BYTES = 1 << 22
# What file systems say that cannot take space in advance.
_CANNOT_RESERVE = frozenset([errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])


@dataclass(eq=False)
class _MappedFile:
    path: str
    fd: int
    array: np.ndarray
    reserved: int = 0


class MappedFiles:
    """Gives arrays that lie in files of a folder, for storages larger than memory.

    The files are scratch: named after this process, and removed when the storage that uses them is closed or
    collected, or when the process ends. They are no way to keep data; ``save_data`` is. Each is locked as long as it is
    used; those of processes that were killed are not, and go when the next storage comes to the folder.

    The files are sparse. A write to a page for which the disk has no space ends the process, so the writer says
    before how far (:meth:`reserve`).

    Args:
        folder: where the files go; it is made.

    Raises:
        OSError: the folder cannot be made or read.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        _remove_abandoned(folder)
        self._stem = f"rows-{os.getpid()}-{next(_numbers)}"
        self._files: list[_MappedFile] = []
        self._finalizer = weakref.finalize(self, _remove, self._files, os.getpid())

    def __call__(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a zeroed array in a new file.

        Raises:
            OSError: the file cannot be made, or cannot be so large.
        """
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if size == 0:
            return np.zeros(shape, dtype)
        tail = re.sub(r"[^0-9A-Za-z_.]", "_", name)[:_NAME_CHARS]
        path = os.path.join(self.folder, f"{self._stem}-{len(self._files)}-{tail}.bin")
        file = _MappedFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), np.empty(0))
        self._files.append(file)
        if fcntl is not None:
            # File systems without locks keep what a killed process leaves.
            with contextlib.suppress(OSError):
                fcntl.flock(file.fd, fcntl.LOCK_EX)
        try:
            os.truncate(file.fd, size)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}: rows need {size} bytes", path) from error
        # A plain array over the map: indexing it makes no `memmap` objects, which cost more than a gather.
        file.array = np.frombuffer(mmap.mmap(file.fd, size), dtype).reshape(shape)
        return file.array

    def reserve(self, array: np.ndarray, rows: int) -> int:
        """Take the disk space for the first ``rows`` rows of an array, if it was given here and has a file.

        Returns:
            For how many of its rows there is space: ``rows`` or more.

        Raises:
            OSError: there is none; the array is as it was.
        """
        for file in self._files:
            if file.array is array:
                row_bytes = array.nbytes // len(array)
                self._reserve(file, rows * row_bytes)
                return file.reserved // row_bytes
        return len(array)

    def _reserve(self, file: _MappedFile, nbytes: int) -> None:
        if nbytes <= file.reserved:
            return
        if not hasattr(os, "posix_fallocate"):
            file.reserved = file.array.nbytes
            return
        stop = min(file.array.nbytes, -(-nbytes // _STEP_BYTES) * _STEP_BYTES)
        try:
            os.posix_fallocate(file.fd, file.reserved, stop - file.reserved)
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                reason = f"{error.strerror}: rows need {stop - file.reserved} more bytes"
                raise OSError(error.errno, reason, file.path) from error
        file.reserved = stop

    def close(self) -> None:
        """Remove the files. Arrays that are still used stay readable as long as they exist."""
        self._finalizer()


def _remove(files: list[_MappedFile], owner_pid: int) -> None:
    while files:
        file = files.pop()
        os.close(file.fd)
        # In a forked child the files are still those of its parent.
        if os.getpid() == owner_pid:
            with contextlib.suppress(FileNotFoundError):
                os.remove(file.path)


def _remove_abandoned(folder: str) -> None:
    """Remove the files that no process uses any more."""
    if fcntl is None:
        return
    for entry in os.scandir(folder):
        if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            # Most are in use, which says BlockingIOError; others somebody else removes, or may remove.
            with contextlib.suppress(OSError), open(entry.path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.remove(entry.path)
