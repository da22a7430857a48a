"""The data plane in the memory of one process: for tests, debugging and notebooks."""

import itertools
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ding.data._tree_codec import decode_tree, encode_tree
from ding.data.exchange._counters import Counters
from ding.data.exchange._ids import check_id, new_writer_name
from ding.data.exchange._shared import SharedByName
from ding.data.exchange.errors import ChunkMissing, StorageFull
from ding.data.exchange.file_data_plane import pack_batch
from ding.data.exchange.protocols import AnyRef, ChunkRef, PlaneStats, chunk_id
from ding.data.transition_batch import TransitionBatch


class _Shelf:
    """Chunks by id: batch, meta as JSON, size."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.chunks: dict[str, tuple[TransitionBatch, str, int]] = {}
        self.nbytes = 0


_shelves: SharedByName[_Shelf] = SharedByName(_Shelf)


class InprocDataPlane:
    """A :class:`~ding.data.exchange.DataPlane` in a dict. What fits into a file fits here, and nothing else does.

    Args:
        root: planes of the same name share their chunks, as those of one folder do, until
            :func:`forget_inproc_planes`. ``None``: this plane is alone.
        writer: begins the ids of the chunks. By default a random name.
        max_bytes: a put that would exceed it raises :class:`StorageFull`.
    """

    def __init__(self, root: "str | None" = None, writer: "str | None" = None, max_bytes: "int | None" = None) -> None:
        self._writer = check_id(writer, "writer")[:64] if writer is not None else new_writer_name()
        self._max_bytes = max_bytes
        self._numbers = itertools.count()
        self._shelf = _Shelf() if root is None else _shelves.get(root)
        self._counters = Counters()

    def put(self, batch: TransitionBatch, meta: "Mapping[str, Any] | None" = None) -> ChunkRef:
        """See :meth:`DataPlane.put <ding.data.exchange.DataPlane.put>`."""
        frame = pack_batch(batch, meta)
        stored = _copied(batch)
        chunk = f"{self._writer}-{next(self._numbers)}.{frame.crc:08x}"
        with self._shelf.lock:
            if self._max_bytes is not None and self._shelf.nbytes + frame.nbytes > self._max_bytes:
                self._counters.add(refused_puts=1)
                raise StorageFull(
                    f"the share is used up: {self._shelf.nbytes} of max_bytes {self._max_bytes}, "
                    f"{frame.nbytes} more are needed; release chunks"
                )
            self._shelf.chunks[chunk] = (stored, json.dumps(dict(meta or {})), frame.nbytes)
            self._shelf.nbytes += frame.nbytes
        self._counters.add(put_chunks=1, put_rows=len(batch), put_bytes=frame.nbytes)
        return {"chunk": chunk, "rows": len(batch), "bytes": frame.nbytes}

    def get(self, ref: AnyRef) -> TransitionBatch:
        """See :meth:`DataPlane.get <ding.data.exchange.DataPlane.get>`."""
        stored = self._find(ref)[0]
        self._counters.add(got_chunks=1, cache_hits=1)
        return TransitionBatch.unchecked(stored.columns, len(stored), stored.lengths)

    def meta(self, ref: AnyRef) -> dict[str, Any]:
        """See :meth:`DataPlane.meta <ding.data.exchange.DataPlane.meta>`."""
        return json.loads(self._find(ref)[1])

    def _find(self, ref: AnyRef) -> tuple[TransitionBatch, str, int]:
        chunk = check_id(chunk_id(ref), "a chunk id")
        with self._shelf.lock:
            found = self._shelf.chunks.get(chunk)
        if found is None:
            raise ChunkMissing(f"there is no chunk {chunk!r}")
        return found

    def release(self, refs: "Iterable[AnyRef]") -> int:
        """See :meth:`DataPlane.release <ding.data.exchange.DataPlane.release>`."""
        released = 0
        for ref in refs:
            chunk = check_id(chunk_id(ref), "a chunk id")
            with self._shelf.lock:
                found = self._shelf.chunks.pop(chunk, None)
                if found is not None:
                    self._shelf.nbytes -= found[2]
                    released += 1
        self._counters.add(released_chunks=released)
        return released

    def chunks(self) -> list[str]:
        """See :meth:`DataPlane.chunks <ding.data.exchange.DataPlane.chunks>`."""
        with self._shelf.lock:
            return list(self._shelf.chunks)

    def stats(self) -> PlaneStats:
        """See :meth:`DataPlane.stats <ding.data.exchange.DataPlane.stats>`."""
        return self._counters.snapshot(self._shelf.nbytes)

    def close(self) -> None:
        """See :meth:`DataPlane.close <ding.data.exchange.DataPlane.close>`."""


def forget_shelf(root: str) -> None:
    """Forget the chunks of the planes named ``root``; those that still hold them go on."""
    _shelves.forget(root)


def copied_tree(tree: Any) -> Any:
    """A copy of a tree of arrays, in the form in which a file would give it back."""
    arrays: list[np.ndarray] = []
    code = encode_tree(tree, arrays)
    return decode_tree(json.loads(json.dumps(code)), [array.copy() for array in arrays])


def _copied(batch: TransitionBatch) -> TransitionBatch:
    return TransitionBatch.unchecked(copied_tree(batch.columns), len(batch), batch.lengths)
