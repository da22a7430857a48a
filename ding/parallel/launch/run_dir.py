"""Folder shared by the processes of a run, removed at its end.

It is in memory (``/dev/shm``) if enough is free, else in the experiment directory. Every process of the run holds a
shared lock on a file in it. A process that can lock it exclusively is the last one: the last orphan of a killed
launcher removes the folder, and a later run removes folders that remained after a power cut.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger("ding.entry")

_PREFIX = "ding-run-"
_LOCK = "alive.lock"
MEMORY_ROOT = Path("/dev/shm")
MIN_FREE_BYTES = 2 * 2**30


def memory_root(min_free_bytes: int = MIN_FREE_BYTES, root: Path = MEMORY_ROOT) -> Path | None:
    """Return a memory-backed folder with ``min_free_bytes`` free, or ``None``."""
    try:
        space = os.statvfs(root)
    except OSError:
        return None
    if space.f_bavail * space.f_frsize < min_free_bytes or not os.access(root, os.W_OK | os.X_OK):
        return None
    return root


class RunDir:
    """A joined run folder; call ``leave`` once."""

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path = path
        self._lock = lock
        self._leaving = threading.Lock()

    @classmethod
    def create(cls, root: str | os.PathLike[str]) -> "RunDir":
        """Create a folder below ``root`` that only its owner can read, and remove those without a process.

        Raises:
            OSError: ``root`` is not writable.
        """
        os.makedirs(root, exist_ok=True)
        sweep(root)
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        # Lock it before it gets its name, so that no other run considers it abandoned.
        new = path / f"{_LOCK}.new"
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _flock(descriptor, shared=True)
        os.replace(new, path / _LOCK)
        return cls(path, descriptor)

    @classmethod
    def join(cls, path: str | os.PathLike[str]) -> "RunDir":
        """Join the folder of another process. A folder without a lock file is joined without a lock."""
        lock = Path(path) / _LOCK
        try:
            descriptor = os.open(lock, os.O_RDWR)
        except FileNotFoundError:
            return cls(Path(path), None)
        _flock(descriptor, shared=True)
        return cls(Path(path), descriptor)

    def leave(self, remove_if_last: bool) -> bool:
        """Leave the folder; ``remove_if_last`` removes it if no other process is in it.

        Returns:
            False for all calls but the first, which may still be running in another thread.
        """
        with self._leaving:
            descriptor, self._lock = self._lock, None
        if descriptor is None:
            return False
        try:
            if remove_if_last and _flock(descriptor, shared=False):
                shutil.rmtree(self.path, ignore_errors=True)
        finally:
            os.close(descriptor)
        return True

    def remove(self) -> None:
        """Remove the folder, even if other processes are in it."""
        self.leave(remove_if_last=False)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path)


@contextlib.contextmanager
def shared_run_dir(fallback: str) -> Iterator[Path]:
    """Create a folder for the processes of a run, in memory or else in ``fallback``, and remove it at the end."""
    run_dir = RunDir.create(memory_root() or fallback)
    try:
        yield run_dir.path
    finally:
        run_dir.remove()
        with contextlib.suppress(OSError):
            os.rmdir(fallback)


def sweep(root: str | os.PathLike[str]) -> int:
    """Remove abandoned run folders of this user below ``root``; return their number."""
    removed = 0
    for path in Path(root).glob(f"{_PREFIX}*"):
        try:
            if path.stat().st_uid != os.getuid():
                continue
            descriptor = os.open(path / _LOCK, os.O_RDWR)
        except OSError:
            continue
        try:
            if _flock(descriptor, shared=False):
                shutil.rmtree(path, ignore_errors=True)
                removed += 1
                logger.info("removed %s, which a killed run left", path)
        finally:
            os.close(descriptor)
    return removed


def _flock(descriptor: int, shared: bool) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
