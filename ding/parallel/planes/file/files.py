"""Atomic writing of files, safe reading, and removal of remnants of dead writers."""

import contextlib
import errno
import itertools
import os
import re
import socket
import stat
import time
import zlib
from collections.abc import Iterator

from ding.parallel.planes.errors import BadFrame
from ding.parallel.planes.frames import check_head, header_bytes

_TMP = re.compile(r"\.(?P<host>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})-[0-9]+\.tmp")
_STALE_AFTER_S = 3600.0
#: Maximum size of a file that is read into memory; chunks and weights are far smaller.
MAX_FRAME_BYTES = 1 << 31
_numbers = itertools.count()


def write_whole(folder: str, name: str, data: bytes) -> None:
    """Write ``folder/name`` atomically: a reader sees no file (or the old one), or the complete new one.

    The data is not flushed to disk: if the process dies, no partial file appears, and after a power cut the reader's
    checksum does not match.

    Raises:
        OSError: Writing failed; nothing was left behind.
    """
    temporary = os.path.join(folder, f".{_host()}-{os.getpid()}-{next(_numbers)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)
        os.rename(temporary, os.path.join(folder, name))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def open_plain(path: str) -> Iterator[int]:
    """Open a regular file for reading, and nothing else: a pipe would block its reader.

    Raises:
        FileNotFoundError: The file does not exist.
        BadFrame: It is not a regular file (a link, a pipe, a folder, a device).
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise BadFrame(f"{path} is no plain file, but a link") from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadFrame(f"{path} is no plain file")
        yield fd
    finally:
        os.close(fd)


def read_frame(path: str, kind: str, nbytes: "int | None" = None, seal_bytes: int = 0) -> bytes:
    """Return the bytes of a frame with its seal. The header is checked before the arrays are read.

    Args:
        path: Path of the file; anything but a regular file is rejected.
        kind: Required kind.
        nbytes: Size of the file, if known.
        seal_bytes: Size of the seal.

    Raises:
        FileNotFoundError: The file does not exist.
        BadFrame: The file is invalid; the message gives the reason.
    """
    with open_plain(path) as fd:
        size = os.fstat(fd).st_size
        if nbytes is not None and size != nbytes:
            raise BadFrame(f"{path} has {size} bytes, expected {nbytes}")
        if size > MAX_FRAME_BYTES:
            raise BadFrame(f"{path} has {size} bytes; at most {MAX_FRAME_BYTES} are read")
        with open(fd, "rb", closefd=False) as file:
            head = file.read(8)
            text = file.read(header_bytes(head, size - seal_bytes))
            check_head(text, size - seal_bytes, kind)
            return head + text + file.read()


def read_notes(path: str, kind: str, seal_bytes: int = 0) -> tuple[dict[str, str], int]:
    """Return the metadata in the header of a frame and its size in bytes without the seal.

    The arrays are not read.

    Raises:
        FileNotFoundError, BadFrame: As in :func:`read_frame`.
    """
    with open_plain(path) as fd:
        size = os.fstat(fd).st_size - seal_bytes
        if size > MAX_FRAME_BYTES:
            raise BadFrame(f"{path} has {size} bytes; at most {MAX_FRAME_BYTES} are read")
        with open(fd, "rb", closefd=False) as file:
            text = file.read(header_bytes(file.read(8), size))
            return check_head(text, size, kind), size


def remove_stale(folder: str) -> int:
    """Remove temporary files of dead writers (on this host), and of any writer after an hour.

    Returns:
        Number of removed files.
    """
    removed = 0
    for name in os.listdir(folder):
        match = _TMP.fullmatch(name)
        if match is None:
            continue
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):
            dead = match["host"] == _host() and not _is_alive(int(match["pid"]))
            if dead or time.time() - os.lstat(path).st_mtime > _STALE_AFTER_S:
                os.unlink(path)
                removed += 1
    return removed


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _host() -> str:
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
