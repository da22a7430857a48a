"""Errors of shared data; :mod:`ding.parallel.planes` shows the tree."""

import errno
import os

from ding.data.columns import DataError


class ExchangeError(DataError):
    """Base class of the errors of :mod:`ding.parallel.planes`."""


class BadId(ExchangeError, ValueError):
    """The id is not a plain name; nothing was opened."""


class BadFrame(ExchangeError, ValueError):
    """A file is truncated, was modified or has another format; or data cannot be stored in a file."""


class ChunkMissing(ExchangeError, LookupError):
    """The chunk does not exist: it was released, or never put."""


class ChunkBroken(BadFrame):
    """The bytes of a chunk have changed. It is quarantined and cannot be restored."""


class StorageError(ExchangeError, OSError):
    """The folder cannot be written. Nothing was left behind; a retry may succeed."""


class StorageFull(StorageError):
    """No space left, on the device or in the configured share."""


class StorageDenied(StorageError):
    """The folder is read-only, or belongs to another user."""


_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def storage_error(error: OSError, root: str) -> StorageError:
    """Convert an error of the operating system about ``root`` to an error of this package."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return StorageFull(f"no space left in {root}: free some, or release chunks ({reason})")
    if error.errno in _DENIED:
        return StorageDenied(f"{root} cannot be written: {reason}")
    return StorageError(f"{root} cannot be written: {reason}")
