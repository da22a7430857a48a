"""Models in files: the learner saves in the background without blocking; other processes load."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from ding.data._expiring_files import ExpiringFiles
from ding.data.roles import StateDict
from ding.data.storage.file import FileModelStorage, Storage

logger = logging.getLogger(__name__)


class ModelWorker:
    """Worker of the loader's thread."""

    def save(self, state: StateDict, storage: Storage) -> Storage:
        """Write a state and return its handle."""
        storage.save(state)
        return storage


class ModelLoader(ABC):
    """Save the state of a model at the moment of the call, on a separate thread.

    Args:
        model: The model.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._worker = ModelWorker()
        self._pool: ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Start the thread; a second call has no effect."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="model_loader")

    @abstractmethod
    def save(self, callback: Callable[[Storage], None]) -> Storage | None:
        """Write the model in the background; ``callback(storage)`` is called once it can be read.

        Returns:
            The handle; ``None``, with a warning, before :meth:`start`.
        """

    def load(self, storage: Storage) -> StateDict:
        """Read a state; its memory is not shared.

        Raises:
            FileNotFoundError: The file has been removed.
        """
        state: StateDict = storage.load()
        return state

    def shutdown(self, timeout: float | None = None) -> None:
        """Wait until all requested saves are written. A second call has no effect; :meth:`start` may follow.

        Args:
            timeout: Accepted for compatibility.
        """
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _save(self, storage: Storage, callback: Callable[[Storage], None]) -> Storage | None:
        if self._pool is None:
            logger.warning("%s.save: call start() first; nothing is saved", type(self).__name__)
            return None
        # A copy, because training continues: a file never mixes two states.
        state = {name: _copied(value) for name, value in self._model.state_dict().items()}
        self._pool.submit(self._write, state, storage, callback)
        return storage

    def _write(self, state: StateDict, storage: Storage, callback: Callable[[Storage], None]) -> None:
        try:
            callback(self._worker.save(state, storage))
        except Exception:
            logger.exception("%r was not saved, or its callback failed", storage)
            raise


class FileModelLoader(ModelLoader):
    """Models as files ``model_<id>.pth.tar`` of one folder.

    Args:
        model: the model.
        dirname: Folder, created by the first `save` if missing.
        ttl: Lifetime of a file in seconds.
    """

    def __init__(self, model: torch.nn.Module, dirname: str, ttl: float = 20) -> None:
        super().__init__(model)
        self._files = ExpiringFiles(dirname, ttl)

    def save(self, callback: Callable[[Storage], None]) -> Storage | None:
        def written(storage: Storage) -> None:
            self._files.written(storage.path)
            callback(storage)

        return self._save(FileModelStorage(self._files.new_path("model_", ".pth.tar")), written)

    def shutdown(self, timeout: float | None = None) -> None:
        """Wait until all requested saves are written, then remove the remaining files."""
        super().shutdown(timeout)
        self._files.close()


def _copied(value: object) -> object:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
