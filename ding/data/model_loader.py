"""Models through files: the learner saves in the background and goes on at once; the others load."""

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
    """What the thread of a loader does."""

    def save(self, state: StateDict, storage: Storage) -> Storage:
        """Write a state; returns its handle."""
        storage.save(state)
        return storage


class ModelLoader(ABC):
    """Saves the state of a model as it is at the moment of the call, on a thread of its own.

    Args:
        model: the model.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._worker = ModelWorker()
        self._pool: ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Begin; a second call does nothing."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="model_loader")

    @abstractmethod
    def save(self, callback: Callable[[Storage], None]) -> Storage | None:
        """Write the model in the background; ``callback(storage)`` is called when it can be read.

        Returns:
            The handle; ``None``, with a warning, before :meth:`start`.
        """

    def load(self, storage: Storage) -> StateDict:
        """Read a state; it shares memory with no other.

        Raises:
            FileNotFoundError: the file has been removed since.
        """
        state: StateDict = storage.load()
        return state

    def shutdown(self, timeout: float | None = None) -> None:
        """Wait until what was asked for is written. A second call does nothing; :meth:`start` may follow.

        Args:
            timeout: accepted for compatibility.
        """
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _save(self, storage: Storage, callback: Callable[[Storage], None]) -> Storage | None:
        if self._pool is None:
            logger.warning("%s.save: call start() first; nothing is saved", type(self).__name__)
            return None
        # A copy, as training goes on meanwhile: a file never holds parts of two states.
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
        dirname: the folder; made by the first `save` when it is not there.
        ttl: seconds after which a file is removed.
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
        """Wait until what was asked for is written, then remove the files that are left."""
        super().shutdown(timeout)
        self._files.close()


def _copied(value: object) -> object:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
