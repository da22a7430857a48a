"""The data plane in a folder: one file per chunk."""

import contextlib
import itertools
import logging
import os
import threading
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from ding.data.transition_batch import TransitionBatch
from ding.parallel.planes.counters import Counters
from ding.parallel.planes.errors import BadFrame, ChunkBroken, ChunkMissing, StorageFull, storage_error
from ding.parallel.planes.file import files
from ding.parallel.planes.frames import check_id, chunk_name, new_writer_name, pack_batch, parse_ref, unpack_batch
from ding.parallel.planes.protocols import AnyRef, ChunkRef, PlaneStats

logger = logging.getLogger(__name__)

_SUFFIX = ".chunk"
_QUARANTINE = "quarantine"


class FileDataPlane:
    """A :class:`~ding.parallel.planes.DataPlane` in a folder that its users share.

    A chunk is a file ``<id>.chunk`` in the safetensors format. It appears whole, is never changed, and its id ends with
    the checksum of its bytes, so that a reader who knows only the id knows whether it has what was put. What is broken
    moves to the folder ``quarantine``, where the last few are kept for the curious.

    Args:
        root: the folder; it is made. On one machine, a memory-backed one is best.
        writer: begins the ids of this writer's chunks; must be its own. By default a random name.
        max_bytes: share of the folder: a put that would exceed it raises :class:`StorageFull`.
        keep_quarantined: how many broken chunks are kept.

    Raises:
        StorageError: the folder cannot be made.
    """

    def __init__(
        self,
        root: "str | os.PathLike[str]",
        writer: "str | None" = None,
        max_bytes: "int | None" = None,
        keep_quarantined: int = 16,
    ) -> None:
        self._root = os.path.realpath(root)
        self._writer = check_id(writer, "writer")[:64] if writer is not None else new_writer_name()
        self._max_bytes = max_bytes
        self._keep_quarantined = keep_quarantined
        self._numbers = itertools.count()
        self._counters = Counters()
        self._size_lock = threading.Lock()
        self._known_bytes: int | None = None
        try:
            os.makedirs(self._root, exist_ok=True)
            files.remove_stale(self._root)
        except OSError as error:
            raise storage_error(error, self._root) from error

    @property
    def root(self) -> str:
        """Absolute path of the folder."""
        return self._root

    # ------------------------------------------------------------------ writing

    def put(self, batch: TransitionBatch, meta: "Mapping[str, Any] | None" = None) -> ChunkRef:
        """See :meth:`DataPlane.put <ding.parallel.planes.DataPlane.put>`."""
        frame, rows = pack_batch(batch, meta), len(batch)
        self._reserve(len(frame))
        chunk = chunk_name(self._writer, next(self._numbers), zlib.crc32(frame))
        try:
            files.write_whole(self._root, chunk + _SUFFIX, frame)
        except OSError as error:
            self._reserve(-len(frame))
            self._counters.add(refused_puts=1)
            raise storage_error(error, self._root) from error
        self._counters.add(put_chunks=1, put_rows=rows, put_bytes=len(frame))
        return {"chunk": chunk, "rows": rows, "bytes": len(frame)}

    def _reserve(self, nbytes: int) -> None:
        """Count ``nbytes`` in; look into the folder only when the share seems to be used up."""
        if self._max_bytes is None:
            return
        with self._size_lock:
            if self._known_bytes is None or self._known_bytes + nbytes > self._max_bytes:
                self._known_bytes = self._folder_bytes()
            if self._known_bytes + nbytes > self._max_bytes:
                self._counters.add(refused_puts=1)
                raise StorageFull(
                    f"the share of {self._root} is used up: {self._known_bytes} of max_bytes {self._max_bytes}, "
                    f"{nbytes} more are needed; release chunks"
                )
            self._known_bytes += nbytes

    def _folder_bytes(self) -> int:
        total = 0
        with os.scandir(self._root) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    total += entry.stat(follow_symlinks=False).st_size if entry.name.endswith(_SUFFIX) else 0
        return total

    def release(self, refs: "Iterable[AnyRef]") -> int:
        """See :meth:`DataPlane.release <ding.parallel.planes.DataPlane.release>`.

        Raises:
            BadId: an id is no plain name.
            StorageError: the folder is read-only.
        """
        released = 0
        for ref in refs:
            chunk, _ = parse_ref(ref)
            try:
                os.unlink(self._path(chunk))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise storage_error(error, self._root) from error
            released += 1
        self._counters.add(released_chunks=released)
        return released

    # ------------------------------------------------------------------ reading

    def get(self, ref: AnyRef) -> TransitionBatch:
        """See :meth:`DataPlane.get <ding.parallel.planes.DataPlane.get>`."""
        return self._read(ref)[0]

    def meta(self, ref: AnyRef) -> dict[str, Any]:
        """See :meth:`DataPlane.meta <ding.parallel.planes.DataPlane.meta>`."""
        return self._read(ref)[1]

    def _read(self, ref: AnyRef) -> tuple[TransitionBatch, dict[str, Any]]:
        chunk, crc = parse_ref(ref)
        try:
            found = unpack_batch(files.read_frame(self._path(chunk), "chunk"), crc)
        except FileNotFoundError:
            raise ChunkMissing(f"there is no chunk {chunk!r} in {self._root}") from None
        except BadFrame as error:
            self._quarantine(chunk)
            raise ChunkBroken(f"chunk {chunk!r} was put into quarantine: {error}") from error
        except OSError as error:
            raise storage_error(error, self._root) from error
        self._counters.add(got_chunks=1)
        return found

    def _quarantine(self, chunk: str) -> None:
        folder = os.path.join(self._root, _QUARANTINE)
        try:
            os.makedirs(folder, exist_ok=True)
            os.rename(self._path(chunk), os.path.join(folder, chunk + _SUFFIX))
            kept = sorted(os.scandir(folder), key=lambda entry: entry.stat(follow_symlinks=False).st_ctime_ns)
            for entry in kept[: max(len(kept) - self._keep_quarantined, 0)]:
                os.unlink(entry.path)
        except FileNotFoundError:
            # Another reader was faster.
            return
        except OSError as error:
            logger.warning("chunk %s is broken and cannot be moved to %s: %s", chunk, folder, error)
        self._counters.add(quarantined_chunks=1)

    # ------------------------------------------------------------------ the rest

    def chunks(self) -> list[str]:
        """See :meth:`DataPlane.chunks <ding.parallel.planes.DataPlane.chunks>`."""
        return [name.removesuffix(_SUFFIX) for name in os.listdir(self._root) if name.endswith(_SUFFIX)]

    def stats(self) -> PlaneStats:
        """See :meth:`DataPlane.stats <ding.parallel.planes.DataPlane.stats>`."""
        return self._counters.snapshot()

    def _path(self, chunk: str) -> str:
        return os.path.join(self._root, chunk + _SUFFIX)
