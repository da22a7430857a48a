"""Data plane over a store of bytes: chunk format, ids, quotas of writers, and counters."""

import itertools
import json
import re
import threading
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ding.data.transition_batch import TransitionBatch
from ding.parallel.planes.errors import BadFrame, BadId, ChunkBroken, ChunkMissing, StorageError, StorageFull
from ding.parallel.planes.frames import Frame, pack, unpack
from ding.parallel.planes.protocols import AnyRef, ChunkRef, PlaneStats

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
_CHUNK = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{0,90})\.(?P<crc>[0-9a-f]{8})")


class ChunkStore(Protocol):
    """Stores the bytes of chunks by id. Several threads may call the methods concurrently."""

    def write(self, chunk: str, frame: bytes) -> None:
        """Store the bytes of a chunk completely, or raise a :class:`StorageError`."""

    def read(self, chunk: str) -> Frame:
        """Return the bytes of a chunk; raises :class:`ChunkMissing`, or :class:`BadFrame` if they are malformed."""

    def notes(self, chunk: str) -> tuple[dict[str, str], int]:
        """Return the checked header of a chunk and its size in bytes; raises like :meth:`read`."""

    def delete(self, chunks: Sequence[str]) -> int:
        """Delete chunks; return the number of those that existed."""

    def quarantine(self, chunk: str) -> bool:
        """Move a broken chunk aside; return ``False`` if another reader did so first."""

    def chunks(self) -> list[str]:
        """Return the ids of all chunks, unordered."""

    def nbytes(self) -> int:
        """Return the total size of all chunks in bytes."""


class StoredDataPlane:
    """:class:`~ding.parallel.planes.DataPlane` over a store.

    The id of a chunk ends with the checksum of its bytes, so a reader can verify the data from the id alone.

    Args:
        store: Store of the bytes.
        place: Name of the store in messages.
        writer: Prefix of the ids of this writer's chunks; must be unique. By default a random name.
        max_bytes: Share of the store: a put that would exceed it raises :class:`StorageFull`.
    """

    def __init__(self, store: ChunkStore, place: str, writer: "str | None", max_bytes: "int | None") -> None:
        self._store = store
        self._place = place
        self._writer = check_id(writer, "writer")[:64] if writer is not None else new_writer_name()
        self._max_bytes = max_bytes
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._stats = PlaneStats()
        self._known_bytes: int | None = None

    def put(self, batch: TransitionBatch, meta: "Mapping[str, Any] | None" = None) -> ChunkRef:
        """See :meth:`DataPlane.put <ding.parallel.planes.DataPlane.put>`."""
        frame, rows = pack_batch(batch, meta), len(batch)
        chunk = f"{self._writer}-{next(self._numbers)}.{zlib.crc32(frame):08x}"
        try:
            self._reserve(len(frame))
            self._store.write(chunk, frame)
        except StorageError:
            # After a failed put, the used share is unknown.
            self._known_bytes = None
            self._count(refused_puts=1)
            raise
        self._count(put_chunks=1, put_rows=rows, put_bytes=len(frame))
        return {"chunk": chunk, "rows": rows, "bytes": len(frame)}

    def get(self, ref: AnyRef) -> TransitionBatch:
        """See :meth:`DataPlane.get <ding.parallel.planes.DataPlane.get>`."""
        return self._read(ref)[0]

    def meta(self, ref: AnyRef) -> dict[str, Any]:
        """See :meth:`DataPlane.meta <ding.parallel.planes.DataPlane.meta>`."""
        return self._read(ref)[1]

    def describe(self, ref: AnyRef) -> ChunkRef:
        """See :meth:`DataPlane.describe <ding.parallel.planes.DataPlane.describe>`."""
        chunk, _ = parse_ref(ref)
        try:
            notes, nbytes = self._store.notes(chunk)
            return {"chunk": chunk, "rows": _rows_of(notes), "bytes": nbytes}
        except BadFrame as error:
            raise self._set_aside(chunk, error) from error

    def _set_aside(self, chunk: str, error: BadFrame) -> ChunkBroken:
        self._count(quarantined_chunks=int(self._store.quarantine(chunk)))
        return ChunkBroken(f"chunk {chunk!r} was put into quarantine: {error}")

    def _read(self, ref: AnyRef) -> tuple[TransitionBatch, dict[str, Any]]:
        chunk, crc = parse_ref(ref)
        try:
            found = unpack_batch(self._store.read(chunk), crc)
        except BadFrame as error:
            raise self._set_aside(chunk, error) from error
        self._count(got_chunks=1)
        return found

    def release(self, refs: "Iterable[AnyRef]") -> int:
        """See :meth:`DataPlane.release <ding.parallel.planes.DataPlane.release>`."""
        released = self._store.delete([parse_ref(ref)[0] for ref in refs])
        self._count(released_chunks=released)
        return released

    def chunks(self) -> list[str]:
        """See :meth:`DataPlane.chunks <ding.parallel.planes.DataPlane.chunks>`."""
        return self._store.chunks()

    def copy_chunks(self, chunks: Iterable[str], target: "StoredDataPlane") -> list[str]:
        """Copy chunks to another plane of any kind; chunks that exist there are skipped.

        Returns:
            The ids of missing or broken chunks.

        Raises:
            StorageError: A chunk cannot be written.
        """
        there, missing = set(target.chunks()), []
        for chunk in chunks:
            if chunk in there:
                continue
            try:
                target._store.write(chunk, bytes(self._store.read(check_id(chunk, "a chunk id"))))
            except (ChunkMissing, BadFrame):
                missing.append(chunk)
        return missing

    def stats(self) -> PlaneStats:
        """See :meth:`DataPlane.stats <ding.parallel.planes.DataPlane.stats>`."""
        return self._stats

    def _count(self, **amounts: int) -> None:
        with self._lock:
            added = {name: getattr(self._stats, name) + amount for name, amount in amounts.items()}
            self._stats = self._stats._replace(**added)

    def _reserve(self, nbytes: int) -> None:
        """Reserve ``nbytes`` of the share; query the store only if the share seems to be used up."""
        if self._max_bytes is None:
            return
        with self._lock:
            if self._known_bytes is None or self._known_bytes + nbytes > self._max_bytes:
                self._known_bytes = self._store.nbytes()
            if self._known_bytes + nbytes > self._max_bytes:
                raise StorageFull(
                    f"the share of {self._place} is used up: {self._known_bytes} of max_bytes {self._max_bytes}, "
                    f"{nbytes} more are needed; release chunks"
                )
            self._known_bytes += nbytes


def pack_batch(batch: TransitionBatch, meta: "Mapping[str, Any] | None") -> bytes:
    """Return the frame of a batch; raises :class:`BadFrame` for an empty batch."""
    if not len(batch):
        raise BadFrame("a chunk needs at least one row")
    return pack({"columns": batch.columns, "rows": len(batch), "lengths": batch.lengths}, "chunk", meta)


def unpack_batch(frame: Frame, crc: int) -> tuple[TransitionBatch, dict[str, Any]]:
    """Return batch and meta of :func:`pack_batch`; raises like :func:`unpack`."""
    tree, meta = unpack(frame, "chunk", crc)
    if not isinstance(tree, dict) or tree.keys() != {"columns", "rows", "lengths"}:
        raise BadFrame("no batch")
    try:
        batch = TransitionBatch(tree["columns"], tree["lengths"])
    except (TypeError, ValueError, AttributeError, StopIteration) as error:
        raise BadFrame(f"no sound batch: {error}") from error
    if len(batch) != tree["rows"] or not len(batch):
        raise BadFrame(f"{tree['rows']!r} rows are claimed, {len(batch)} found")
    return batch, meta


def _rows_of(notes: Mapping[str, str]) -> int:
    """Return the number of rows in the header of a chunk; raises :class:`BadFrame` if it is missing."""
    try:
        (kind, rows) = dict(json.loads(notes["structure"])[1])["rows"]
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadFrame("no batch: the header names no number of rows") from error
    if kind != "v" or type(rows) is not int or rows < 1:
        raise BadFrame("no batch: the number of rows in the header is none")
    return rows


def check_id(value: object, what: str) -> str:
    """Return ``value`` if it is a plain name: up to 120 letters, digits, ``_``, ``-`` and (not first) ``.``.

    Raises:
        BadId: ``value`` is not a plain name; the message contains only a short form of it.
    """
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    shown = repr(value)[:60] if isinstance(value, str) else type(value).__name__
    raise BadId(f"{what} must be 1 to 120 letters, digits, '_', '-' or '.', and not begin with '.'; found {shown}")


def new_writer_name() -> str:
    """Return a unique writer name."""
    return f"w{uuid.uuid4().hex[:12]}"


def parse_ref(ref: AnyRef) -> tuple[str, int]:
    """Return id and checksum of a reference.

    Raises:
        BadId: The id is not a plain name that ends with a checksum.
    """
    chunk = check_id(ref.get("chunk") if isinstance(ref, Mapping) else ref, "a chunk id")
    match = _CHUNK.fullmatch(chunk)
    if match is None:
        raise BadId(f"a chunk id must end with '.' and 8 hexadecimal digits; found {chunk[:60]!r}")
    return chunk, int(match["crc"], 16)


def writer_of(chunk: str) -> str:
    """Return the writer's name in the id of a chunk; ``''`` if there is none."""
    return chunk.rpartition(".")[0].rpartition("-")[0]
