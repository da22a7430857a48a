"""Files in the format of ``torch.save`` that carry the SHA-256 of their bytes, so that one changed bit is noticed.

The digest is stored as the comment of the zip archive, so every version of torch and DI-engine still reads the file.
For a file without a comment, the CRC-32 of each zip entry is checked instead.
"""

import hashlib
import os
import pickle
import re
import zipfile
import zlib
from typing import BinaryIO

from ding.utils.errors import UserMistake

_HEAD = b"PK\x03\x04"
# The first bytes of files written by torch before it used zip archives.
_LEGACY_HEAD = b"\x80\x02"
_END = b"PK\x05\x06"
_END_BYTES = 22
_MARK = b"ding-sha256:"
_COMMENT_BYTES = len(_MARK) + 2 * hashlib.sha256().digest_size
_PART_BYTES = 1 << 20
_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")


class FileRefusedError(ValueError, pickle.UnpicklingError, UserMistake):
    """A file is damaged or has the wrong format. The message is one sentence that begins with the path."""


class DigestingWriter:
    """Write to ``file`` and compute a digest of the written bytes.

    Args:
        file: Binary file open for writing, positioned at its beginning.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, hashlib.sha256()
        #: Why the file could not be written; the error of ``torch.save`` does not include the reason.
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write ``data``."""
        self._digest.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()

    def append_digest(self) -> None:
        """Append the digest; call it once, after the zip archive is complete."""
        self._file.seek(-2, os.SEEK_END)
        self._file.write(_COMMENT_BYTES.to_bytes(2, "little") + _MARK + self._digest.hexdigest().encode())


def check_digest(path: "str | os.PathLike[str]") -> None:
    """Check that the bytes of a file match its digest.

    Raises:
        FileRefusedError: The bytes differ, or the file is not in the format of ``torch.save``.
        OSError: The file cannot be read.
    """
    where = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(4)
        if size == 0:
            raise FileRefusedError(f"{where} is empty")
        if not head.startswith((_HEAD, _LEGACY_HEAD)):
            raise FileRefusedError(f"{where} is no file of torch.save: it begins with the bytes {head!r}")
        if head.startswith(_LEGACY_HEAD):
            return
        file.seek(max(0, size - _END_BYTES - _COMMENT_BYTES))
        tail = file.read()
        marked, bare = tail[:_END_BYTES], tail[-_END_BYTES:]
        if bare.startswith(_END) and bare.endswith(b"\0\0"):
            _check_entries(file, where)
        elif not marked.startswith(_END) or tail[_END_BYTES - 2 :][:2] != _COMMENT_BYTES.to_bytes(2, "little"):
            raise FileRefusedError(f"{where} is truncated or damaged: its end is not that of a file of torch.save")
        elif tail[_END_BYTES:] != _MARK + _digest(file, size - _COMMENT_BYTES - 2).encode():
            raise FileRefusedError(f"{where} is damaged: its bytes do not have the recorded SHA-256")


def _digest(file: BinaryIO, nbytes: int) -> str:
    """Return the digest of the first ``nbytes`` bytes and of the comment length, which was 0."""
    digest = hashlib.sha256()
    file.seek(0)
    while nbytes:
        part = file.read(min(nbytes, _PART_BYTES))
        digest.update(part)
        nbytes -= len(part)
    digest.update(b"\0\0")
    return digest.hexdigest()


def _check_entries(file: BinaryIO, where: str) -> None:
    try:
        with zipfile.ZipFile(file) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        raise FileRefusedError(f"{where} is truncated or damaged: {error}") from error
    if broken is not None:
        raise FileRefusedError(f"{where} is damaged: its entry {broken} does not have the recorded CRC-32")


def refusal(path: "str | os.PathLike[str]", error: Exception) -> FileRefusedError:
    """Return the error to raise instead of that of ``torch.load``, whose advice is to load the file unsafely."""
    where, text = os.fspath(path), str(error)
    found = _GLOBAL.search(text)
    if found is not None:
        return FileRefusedError(
            f"{where} is refused: it holds {found[1]}, and only tensors, numbers, texts and their containers are loaded"
        )
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return FileRefusedError(f"{where} cannot be read: {first[:200]}")
