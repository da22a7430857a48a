"""The data plane in the memory of one process."""

import itertools
import threading
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from ding.data.transition_batch import TransitionBatch
from ding.parallel.planes.counters import Counters
from ding.parallel.planes.errors import ChunkMissing, StorageFull
from ding.parallel.planes.frames import check_id, chunk_name, new_writer_name, pack_batch, parse_ref, unpack_batch
from ding.parallel.planes.inproc.shared import SharedByName
from ding.parallel.planes.protocols import AnyRef, ChunkRef, PlaneStats


class _Chunks:
    """Frames by id."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.frames: dict[str, bytes] = {}
        self.nbytes = 0


_shared: SharedByName[_Chunks] = SharedByName(_Chunks)


class InprocDataPlane:
    """A :class:`~ding.parallel.planes.DataPlane` in a dict. Chunks have the bytes that a file would have.

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
        self._chunks = _Chunks() if root is None else _shared.get(root)
        self._counters = Counters()

    def put(self, batch: TransitionBatch, meta: "Mapping[str, Any] | None" = None) -> ChunkRef:
        """See :meth:`DataPlane.put <ding.parallel.planes.DataPlane.put>`."""
        frame, rows = pack_batch(batch, meta), len(batch)
        chunk = chunk_name(self._writer, next(self._numbers), zlib.crc32(frame))
        with self._chunks.lock:
            if self._max_bytes is not None and self._chunks.nbytes + len(frame) > self._max_bytes:
                self._counters.add(refused_puts=1)
                raise StorageFull(
                    f"the share is used up: {self._chunks.nbytes} of max_bytes {self._max_bytes}, "
                    f"{len(frame)} more are needed; release chunks"
                )
            self._chunks.frames[chunk] = frame
            self._chunks.nbytes += len(frame)
        self._counters.add(put_chunks=1, put_rows=rows, put_bytes=len(frame))
        return {"chunk": chunk, "rows": rows, "bytes": len(frame)}

    def get(self, ref: AnyRef) -> TransitionBatch:
        """See :meth:`DataPlane.get <ding.parallel.planes.DataPlane.get>`."""
        return self._read(ref)[0]

    def meta(self, ref: AnyRef) -> dict[str, Any]:
        """See :meth:`DataPlane.meta <ding.parallel.planes.DataPlane.meta>`."""
        return self._read(ref)[1]

    def _read(self, ref: AnyRef) -> tuple[TransitionBatch, dict[str, Any]]:
        chunk, crc = parse_ref(ref)
        with self._chunks.lock:
            frame = self._chunks.frames.get(chunk)
        if frame is None:
            raise ChunkMissing(f"there is no chunk {chunk!r}")
        self._counters.add(got_chunks=1)
        return unpack_batch(frame, crc)

    def release(self, refs: "Iterable[AnyRef]") -> int:
        """See :meth:`DataPlane.release <ding.parallel.planes.DataPlane.release>`."""
        released = 0
        for ref in refs:
            chunk, _ = parse_ref(ref)
            with self._chunks.lock:
                frame = self._chunks.frames.pop(chunk, None)
                if frame is not None:
                    self._chunks.nbytes -= len(frame)
                    released += 1
        self._counters.add(released_chunks=released)
        return released

    def chunks(self) -> list[str]:
        """See :meth:`DataPlane.chunks <ding.parallel.planes.DataPlane.chunks>`."""
        with self._chunks.lock:
            return list(self._chunks.frames)

    def stats(self) -> PlaneStats:
        """See :meth:`DataPlane.stats <ding.parallel.planes.DataPlane.stats>`."""
        return self._counters.snapshot()


def forget_chunks(root: str) -> None:
    """Forget the chunks of the planes named ``root``; those that still hold them go on."""
    _shared.forget(root)
