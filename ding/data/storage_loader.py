"""Objects through files: one process saves, the others load in the background.

A load is done by a thread. What lies in a file are arrays, whose reading and checking releases the interpreter, so that
processes and shared memory for it would cost more than they bring. Each callback gets an object of its own: its arrays
share memory with no other load.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ding.data._expiring_files import ExpiringFiles
from ding.data.storage.file import FileStorage, Storage

logger = logging.getLogger(__name__)


class StorageWorker:
    """What a thread of a loader does."""

    def load(self, storage: Storage) -> object:
        """Read the object."""
        return storage.load()


class StorageLoader(ABC):
    """Saves objects, and loads them on ``worker_num`` threads.

    Concurrency: all methods may be called from any thread. Callbacks are called on the threads of the loader, in no
    fixed order when there are several.
    """

    def __init__(self, worker_num: int = 3) -> None:
        if worker_num < 1:
            raise ValueError(f"worker_num must be at least 1, got {worker_num}")
        self._worker_num = worker_num
        self._worker = StorageWorker()
        self._pool: ThreadPoolExecutor | None = None

    @abstractmethod
    def save(self, obj: object) -> Storage:
        """Write an object; returns its handle when it can be read."""

    def load(self, storage: Storage, callback: Callable[[Any], None]) -> None:
        """Read the object in the background, and call ``callback(obj)``.

        An object that cannot be read, because its file is broken or gone, is logged and dropped.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._worker_num, thread_name_prefix="storage_loader")
        self._pool.submit(self._load, storage, callback)

    def _load(self, storage: Storage, callback: Callable[[Any], None]) -> None:
        try:
            obj = self._worker.load(storage)
        except (OSError, ValueError) as error:
            logger.warning("%r cannot be loaded and is dropped: %s", storage, error)
            return
        try:
            callback(obj)
        except Exception:
            logger.exception("the callback of a load of %r failed", storage)
            raise

    def shutdown(self, timeout: float | None = None) -> None:
        """Wait for the loads that have begun, drop the others. A second call does nothing.

        Args:
            timeout: accepted for compatibility; a load has no wait in it.
        """
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)


class FileStorageLoader(StorageLoader):
    """Objects as files of one folder, see :class:`~ding.data.storage.file.FileStorage` for what they may hold.

    Args:
        dirname: the folder; made by the first `save` when it is not there.
        ttl: seconds after which a file is removed.
        worker_num: number of threads that load.
    """

    def __init__(self, dirname: str, ttl: float = 20, worker_num: int = 3) -> None:
        super().__init__(worker_num)
        self._files = ExpiringFiles(dirname, ttl)

    def save(self, obj: object) -> FileStorage:
        storage = FileStorage(self._files.new_path("", ".safetensors"))
        storage.save(obj)
        self._files.written(storage.path)
        return storage

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop loading, and remove the files that are left."""
        super().shutdown(timeout)
        self._files.close()
