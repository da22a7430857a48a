"""Locks between threads, between processes, and on files."""

import enum
import multiprocessing
import threading
from typing import IO, Any, ClassVar


class OwnLocks:
    """Base class of objects that hold locks or threads: copies and unpickled objects create their own.

    Subclasses list these attributes in ``_own`` and create them in ``_make_own``, which the constructor also calls.
    """

    _own: ClassVar[tuple[str, ...]]

    def _make_own(self) -> None:
        """Create the attributes in ``_own``."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_own()


class LockContextType(enum.Enum):
    """Scope of a ``LockContext``: threads or processes."""

    THREAD_LOCK = 1
    PROCESS_LOCK = 2


class LockContext:
    """A lock of the given kind, usable as a context manager or with ``acquire`` and ``release``. Not re-entrant."""

    def __init__(
        self, lock_type: LockContextType = LockContextType.THREAD_LOCK, type_: LockContextType | None = None
    ) -> None:
        kind = lock_type if type_ is None else type_
        if kind is LockContextType.THREAD_LOCK:
            self.lock: Any = threading.Lock()
        elif kind is LockContextType.PROCESS_LOCK:
            self.lock = multiprocessing.Lock()
        else:
            raise ValueError(f"lock_type must be a LockContextType, got {kind!r}")

    def acquire(self, timeout: float | None = None) -> bool:
        """Acquire the lock; with ``timeout`` (seconds), return False if it did not become free in time."""
        if timeout is None:
            return bool(self.lock.acquire())
        return bool(self.lock.acquire(True, timeout))

    def release(self) -> None:
        """Release the lock."""
        self.lock.release()

    def __enter__(self) -> "LockContext":
        self.lock.acquire()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.lock.release()


class FcntlContext:
    """An exclusive ``flock`` on a lock file, between processes and between threads that each create a context.

    Args:
        lock_path: Lock file, created if missing and never removed.
    """

    def __init__(self, lock_path: str) -> None:
        self.lock_path = lock_path
        self._file: IO[str] | None = None

    def __enter__(self) -> "FcntlContext":
        import fcntl

        if self._file is not None:
            raise RuntimeError(f"the lock on {self.lock_path} is held already by this context")
        # "a" and not "w": opening must not truncate a file locked by another process.
        file = open(self.lock_path, "a", encoding="utf-8")
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._file is not None:
            self._file.close()  # closing releases the flock
            self._file = None


def get_file_lock(name: str, op: str) -> "FcntlContext":
    """Return a lock on ``<name>.lock`` for reading or writing ``name``; both are exclusive.

    Args:
        op: ``'read'`` or ``'write'``.
    """
    if op not in ("read", "write"):
        raise KeyError(f"op must be 'read' or 'write', got {op!r}")
    return FcntlContext(f"{name}.lock")


def get_rw_file_lock(name: str, op: str) -> "FcntlContext":
    """Same as ``get_file_lock``."""
    return get_file_lock(name, op)
