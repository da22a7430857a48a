"""The data plane in a folder: one file per chunk."""

import contextlib
import itertools
import logging
import os
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from ding.data.exchange import _files, _frame
from ding.data.exchange._chunk_cache import ChunkCache
from ding.data.exchange._counters import Counters
from ding.data.exchange._ids import check_id, new_writer_name
from ding.data.exchange.errors import BadFrame, BadId, ChunkBroken, ChunkMissing, StorageFull, storage_error
from ding.data.exchange.protocols import AnyRef, ChunkRef, PlaneStats, chunk_id
from ding.data.transition_batch import TransitionBatch

logger = logging.getLogger(__name__)

_SUFFIX = ".chunk"
_CHUNK = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{0,90})\.(?P<crc>[0-9a-f]{8})")
_QUARANTINE = "quarantine"


class FileDataPlane:
    """A :class:`~ding.data.exchange.DataPlane` in a folder that its users share.

    A chunk is a file ``<id>.chunk`` in the safetensors format. It appears whole, is never changed, and its id ends with
    the checksum of its bytes, so that a reader who knows only the id knows whether it has what was put. What is broken
    moves to the folder ``quarantine``, where the last few are kept for the curious.

    Small chunks are read, larger ones mapped; both stay in a cache. (A mapped file must not be truncated by others
    while it is in use: the operating system would end the process. This class only ever adds and removes files.)

    Args:
        root: the folder; it is made. On one machine, a memory-backed one is best.
        writer: begins the ids of this writer's chunks; must be its own. By default a random name.
        max_bytes: share of the folder: a put that would exceed it raises :class:`StorageFull`.
        cache_bytes: size of the cache.
        cache_chunks: number of chunks in the cache.
        mmap_min_bytes: smallest chunk that is mapped.
        keep_quarantined: how many broken chunks are kept.

    Raises:
        StorageError: the folder cannot be made.
    """

    def __init__(
        self,
        root: "str | os.PathLike[str]",
        writer: "str | None" = None,
        max_bytes: "int | None" = None,
        cache_bytes: int = 256 << 20,
        cache_chunks: int = 512,
        mmap_min_bytes: int = 1 << 20,
        keep_quarantined: int = 16,
    ) -> None:
        self._root = os.path.realpath(root)
        self._writer = check_id(writer, "writer")[:64] if writer is not None else new_writer_name()
        self._max_bytes = max_bytes
        self._mmap_min_bytes = mmap_min_bytes
        self._keep_quarantined = keep_quarantined
        self._numbers = itertools.count()
        self._cache = ChunkCache(cache_chunks, cache_bytes)
        self._counters = Counters()
        self._size_lock = threading.Lock()
        self._known_bytes: int | None = None
        try:
            os.makedirs(self._root, exist_ok=True)
            _files.remove_stale(self._root)
        except OSError as error:
            raise storage_error(error, self._root) from error

    @property
    def root(self) -> str:
        """Absolute path of the folder."""
        return self._root

    # ------------------------------------------------------------------ writing

    def put(self, batch: TransitionBatch, meta: "Mapping[str, Any] | None" = None) -> ChunkRef:
        """See :meth:`DataPlane.put <ding.data.exchange.DataPlane.put>`."""
        frame = pack_batch(batch, meta)
        self._reserve(frame.nbytes)
        chunk = f"{self._writer}-{next(self._numbers)}.{frame.crc:08x}"
        try:
            _files.write_whole(self._root, chunk + _SUFFIX, frame.parts)
        except OSError as error:
            self._reserve(-frame.nbytes)
            self._counters.add(refused_puts=1)
            raise storage_error(error, self._root) from error
        self._counters.add(put_chunks=1, put_rows=len(batch), put_bytes=frame.nbytes)
        return {"chunk": chunk, "rows": len(batch), "bytes": frame.nbytes}

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
        """See :meth:`DataPlane.release <ding.data.exchange.DataPlane.release>`.

        Raises:
            BadId: an id is no plain name.
            StorageError: the folder is read-only.
        """
        released = 0
        for ref in refs:
            chunk, _ = _parse(ref)
            self._cache.drop(chunk)
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
        """See :meth:`DataPlane.get <ding.data.exchange.DataPlane.get>`."""
        content = self._content(ref)
        return TransitionBatch.unchecked(content.tree["columns"], content.tree["rows"], content.tree["lengths"])

    def meta(self, ref: AnyRef) -> dict[str, Any]:
        """See :meth:`DataPlane.meta <ding.data.exchange.DataPlane.meta>`."""
        return dict(self._content(ref).meta)

    def _content(self, ref: AnyRef) -> _frame.Content:
        chunk, crc = _parse(ref)
        content = self._cache.get(chunk)
        if content is not None:
            self._counters.add(got_chunks=1, cache_hits=1)
            return content
        try:
            content = _frame.read(self._path(chunk), "chunk", crc, None, self._mmap_min_bytes)
            check_batch(content.tree, chunk)
        except FileNotFoundError:
            raise ChunkMissing(f"there is no chunk {chunk!r} in {self._root}") from None
        except BadFrame as error:
            self._quarantine(chunk)
            raise ChunkBroken(f"chunk {chunk!r} was put into quarantine: {error}") from error
        except OSError as error:
            raise storage_error(error, self._root) from error
        self._cache.put(chunk, content)
        self._counters.add(got_chunks=1)
        return content

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
        """See :meth:`DataPlane.chunks <ding.data.exchange.DataPlane.chunks>`."""
        return [name.removesuffix(_SUFFIX) for name in os.listdir(self._root) if name.endswith(_SUFFIX)]

    def stats(self) -> PlaneStats:
        """See :meth:`DataPlane.stats <ding.data.exchange.DataPlane.stats>`."""
        return self._counters.snapshot(self._cache.nbytes)

    def close(self) -> None:
        """See :meth:`DataPlane.close <ding.data.exchange.DataPlane.close>`."""
        self._cache.clear()

    def _path(self, chunk: str) -> str:
        return os.path.join(self._root, chunk + _SUFFIX)


def pack_batch(batch: TransitionBatch, meta: "Mapping[str, Any] | None") -> _frame.Frame:
    """The frame of a batch; raises :class:`BadFrame` for an empty one."""
    if not len(batch):
        raise BadFrame("a chunk needs at least one row")
    tree = {"columns": batch.columns, "rows": len(batch), "lengths": batch.lengths}
    return _frame.pack(tree, "chunk", meta or {})


def check_batch(tree: Any, chunk: str) -> None:
    """Raise :class:`BadFrame` unless ``tree`` is what :func:`pack_batch` packed."""
    if not isinstance(tree, dict) or tree.keys() != {"columns", "rows", "lengths"}:
        raise BadFrame(f"{chunk} holds no batch")
    try:
        rows = len(TransitionBatch(tree["columns"], tree["lengths"]))
    except (TypeError, ValueError, AttributeError, StopIteration) as error:
        raise BadFrame(f"{chunk} holds no sound batch: {error}") from error
    if rows != tree["rows"] or not rows:
        raise BadFrame(f"{chunk} claims {tree['rows']!r} rows and has {rows}")


def _parse(ref: AnyRef) -> tuple[str, int]:
    """Id and checksum of a ref."""
    chunk = check_id(chunk_id(ref), "a chunk id")
    match = _CHUNK.fullmatch(chunk)
    if match is None:
        raise BadId(f"a chunk id must end with '.' and 8 hexadecimal digits; found {chunk[:60]!r}")
    return chunk, int(match["crc"], 16)
