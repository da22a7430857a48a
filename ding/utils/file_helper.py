"""Write files atomically, and read them without executing their contents."""

import contextlib
import os
import pickle
import re
import shutil
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from ding.utils._file_digest import DigestingWriter, FileRefusedError, check_digest, refusal
from ding.utils.lock_helper import get_file_lock
from ding.utils.nested import Tree

__all__ = [
    "FileRefusedError",
    "atomic_write",
    "read_file",
    "remove_file",
    "remove_torn_files",
    "save_file",
    "write_text",
]

_TORN = re.compile(r"\.[0-9]+\.[0-9a-f]{8}\.tmp$")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], private: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file that becomes ``path`` when the block ends and is discarded when the block fails.

    The bytes are on disk (fsync) before the name changes, so a reader sees either the old file or the complete new one.
    The folder must exist; an existing file keeps its mode. A ``private`` file is readable only by its owner at all
    times.
    """
    target = os.fspath(path)
    temporary = f"{target}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target) and not private:
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def write_text(path: str | os.PathLike[str], text: str, private: bool = False) -> None:
    """Write a text file (UTF-8) atomically, see ``atomic_write``."""
    with atomic_write(path, private) as file:
        file.write(text.encode())


def remove_torn_files(folder: str | os.PathLike[str]) -> list[str]:
    """Remove temporary files in ``folder`` left by processes killed in ``atomic_write``; return their paths.

    Call it only after all of these processes have ended.
    """
    torn = [entry.path for entry in os.scandir(folder) if _TORN.search(entry.name) and entry.is_file()]
    for path in torn:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
    return torn


def _check(path: str, fs_type: str | None) -> None:
    if fs_type not in (None, "normal") or str(path).lower().startswith("s3:"):
        raise ValueError(
            f"cannot use {path!r} with fs_type {fs_type!r}: only local files (None or 'normal') are supported"
        )


def read_file(path: str, fs_type: str | None = None, use_lock: bool = False) -> Tree:
    """Read what ``save_file`` wrote (or a ``torch.save`` of tensors and plain containers); tensors come to the CPU.

    Args:
        path: the file.
        fs_type: None or ``'normal'``.
        use_lock: Hold an exclusive ``flock`` on ``<path>.lock`` while reading.

    Raises:
        FileRefusedError: The file is damaged, or contains anything but tensors and plain containers (a ``ValueError``
            and a ``pickle.UnpicklingError``).
    """
    from ding.utils import _plain_data

    _check(path, fs_type)
    with get_file_lock(path, "read") if use_lock else contextlib.nullcontext():
        check_digest(path)
        try:
            return _plain_data.load(path)
        except (pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, LookupError, RuntimeError, TypeError,
                ValueError) as error:  # fmt: skip
            raise refusal(path, error) from error


def save_file(path: str, data: object, fs_type: str | None = None, use_lock: bool = False) -> None:
    """Write ``data`` atomically (see ``atomic_write``), in the format of ``torch.save``, with the SHA-256 of its bytes.

    Args:
        path: the file; its folder must exist.
        data: tensors, arrays, numbers, texts, None and dicts, lists or tuples of them. Arrays come back as arrays,
            other mappings as dicts, named tuples as tuples.
        fs_type: None or ``'normal'``.
        use_lock: Hold an exclusive ``flock`` on ``<path>.lock`` while writing.

    Raises:
        TypeError: A value in ``data`` has no safe form; the message says where. The file is unchanged.
        OSError: The file cannot be written, for example because the disk is full. The file is unchanged.
    """
    from ding.utils import _plain_data

    _check(path, fs_type)
    with get_file_lock(path, "write") if use_lock else contextlib.nullcontext(), atomic_write(path) as file:
        digesting = DigestingWriter(file)
        try:
            _plain_data.dump(data, digesting)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise digesting.error or error from error
        digesting.append_digest()


def remove_file(path: str, fs_type: str | None = None) -> None:
    """Remove a file or a folder with its contents; of a link, the link only. A missing path is ignored."""
    _check(path, fs_type)
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
