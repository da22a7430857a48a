"""Data plane in a folder, with one file per chunk."""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

from ding.parallel.planes.data_plane import StoredDataPlane
from ding.parallel.planes.errors import ChunkMissing, storage_error
from ding.parallel.planes.file import files
from ding.parallel.planes.seal import Seal

logger = logging.getLogger(__name__)

_SUFFIX = ".chunk"
_QUARANTINE = "quarantine"


class FileDataPlane(StoredDataPlane):
    """:class:`~ding.parallel.planes.DataPlane` in a shared folder.

    A chunk is a file ``<id>.chunk`` in the safetensors format. It is written atomically and never modified. Broken
    chunks are moved to the folder ``quarantine``, which keeps the last few for inspection.

    Args:
        root: Folder, created if missing. On a single machine, a memory-backed one is best.
        writer: Prefix of the ids of this writer's chunks; must be unique. By default a random name.
        max_bytes: Share of the folder: a put that would exceed it raises :class:`StorageFull`.
        keep_quarantined: Number of broken chunks to keep.
        seal: Seal of the chunks; by default that of the run of this process.

    Raises:
        StorageError: The folder cannot be created.
    """

    def __init__(
        self,
        root: "str | os.PathLike[str]",
        writer: "str | None" = None,
        max_bytes: "int | None" = None,
        keep_quarantined: int = 16,
        seal: "Seal | None" = None,
    ) -> None:
        self._root = os.path.realpath(root)
        folder = _Folder(self._root, keep_quarantined, Seal.of_this_process() if seal is None else seal)
        super().__init__(folder, self._root, writer, max_bytes)

    @property
    def root(self) -> str:
        """Absolute path of the folder."""
        return self._root


class _Folder:
    """:class:`~ding.parallel.planes.data_plane.ChunkStore` in a folder."""

    def __init__(self, root: str, keep_quarantined: int, seal: Seal) -> None:
        self._root = root
        self._seal = seal
        self._keep_quarantined = keep_quarantined
        try:
            os.makedirs(root, exist_ok=True)
            files.remove_stale(root)
        except OSError as error:
            raise storage_error(error, root) from error

    def write(self, chunk: str, frame: bytes) -> None:
        try:
            files.write_whole(self._root, chunk + _SUFFIX, self._seal.close(chunk, frame))
        except OSError as error:
            raise storage_error(error, self._root) from error

    def read(self, chunk: str) -> bytes:
        with self._errors(chunk):
            sealed = files.read_frame(self._path(chunk), "chunk", seal_bytes=self._seal.nbytes)
            return self._seal.open(chunk, sealed)

    def notes(self, chunk: str) -> tuple[dict[str, str], int]:
        with self._errors(chunk):
            return files.read_notes(self._path(chunk), "chunk", self._seal.nbytes)

    @contextlib.contextmanager
    def _errors(self, chunk: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise ChunkMissing(f"there is no chunk {chunk!r} in {self._root}") from None
        except OSError as error:
            raise storage_error(error, self._root) from error

    def delete(self, chunks: Sequence[str]) -> int:
        deleted = 0
        for chunk in chunks:
            try:
                os.unlink(self._path(chunk))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise storage_error(error, self._root) from error
            deleted += 1
        return deleted

    def quarantine(self, chunk: str) -> bool:
        folder = os.path.join(self._root, _QUARANTINE)
        try:
            os.makedirs(folder, exist_ok=True)
            os.rename(self._path(chunk), os.path.join(folder, chunk + _SUFFIX))
            kept = sorted(os.scandir(folder), key=lambda entry: entry.stat(follow_symlinks=False).st_ctime_ns)
            for entry in kept[: max(len(kept) - self._keep_quarantined, 0)]:
                os.unlink(entry.path)
        except FileNotFoundError:
            # Another reader was faster.
            return False
        except OSError as error:
            logger.warning("chunk %s is broken and cannot be moved to %s: %s", chunk, folder, error)
        return True

    def chunks(self) -> list[str]:
        return [name.removesuffix(_SUFFIX) for name in os.listdir(self._root) if name.endswith(_SUFFIX)]

    def nbytes(self) -> int:
        total = 0
        with os.scandir(self._root) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    total += entry.stat(follow_symlinks=False).st_size if entry.name.endswith(_SUFFIX) else 0
        return total

    def _path(self, chunk: str) -> str:
        return os.path.join(self._root, chunk + _SUFFIX)
