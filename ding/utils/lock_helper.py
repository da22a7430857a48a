"""Locks between threads, between processes, and over files."""

import enum
import multiprocessing
import threading
from typing import IO, Any, ClassVar


class OwnLocks:
    """Base of what holds locks or threads: a copy, and what is unpickled, makes its own.

    A subclass lists these attributes in ``_own`` and makes them in ``_make_own``, which its constructor calls, too.
    """

    _own: ClassVar[tuple[str, ...]]

    def _make_own(self) -> None:
        """Make the attributes in ``_own``."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_own()


class LockContextType(enum.Enum):
    """Between whom a ``LockContext`` locks."""

    THREAD_LOCK = 1
    PROCESS_LOCK = 2


class LockContext:
    """A lock of the named kind, as a context manager and with ``acquire`` and ``release``. Not re-entrant."""

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
        """Take the lock; with ``timeout`` (seconds) False when it did not come free in time."""
        if timeout is None:
            return bool(self.lock.acquire())
        return bool(self.lock.acquire(True, timeout))

    def release(self) -> None:
        """Give the lock back."""
        self.lock.release()

    def __enter__(self) -> "LockContext":
        self.lock.acquire()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.lock.release()


class FcntlContext:
    """An exclusive ``flock`` on a lock file, between processes and between threads that each make a context.

    Args:
        lock_path: the lock file; it is made and stays.
    """

    def __init__(self, lock_path: str) -> None:
        self.lock_path = lock_path
        self._file: IO[str] | None = None

    def __enter__(self) -> "FcntlContext":
        import fcntl

        if self._file is not None:
            raise RuntimeError(f"the lock on {self.lock_path} is held already by this context")
        # "a" and not "w": opening must not change a file that another process has locked.
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
    """Return the same as ``get_file_lock``."""
    return get_file_lock(name, op)
