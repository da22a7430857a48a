"""What can go wrong between the processes that share data; the tree is drawn in :mod:`ding.parallel.planes`."""

import errno
import os

from ding.data.columns import DataError


class ExchangeError(DataError):
    """Base class of the errors of :mod:`ding.parallel.planes`."""


class BadId(ExchangeError, ValueError):
    """An id that is no plain name; nothing was opened."""


class BadFrame(ExchangeError, ValueError):
    """A file that is truncated, was changed or is no exchange file, or data that does not fit into one."""


class ChunkMissing(ExchangeError, LookupError):
    """No such chunk: it was released, or never put."""


class ChunkBroken(BadFrame):
    """A chunk whose bytes are not those that were put. It lies in quarantine now and will not come back."""


class StorageError(ExchangeError, OSError):
    """The folder cannot be written. Nothing was left behind; the same call may succeed later."""


class StorageFull(StorageError):
    """No space left, on the device or in the configured share of it."""


class StorageDenied(StorageError):
    """The folder is read-only, or belongs to somebody else."""


_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def storage_error(error: OSError, root: str) -> StorageError:
    """The error of this package that says what the operating system said about ``root``."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return StorageFull(f"no space left in {root}: free some, or release chunks ({reason})")
    if error.errno in _DENIED:
        return StorageDenied(f"{root} cannot be written: {reason}")
    return StorageError(f"{root} cannot be written: {reason}")
