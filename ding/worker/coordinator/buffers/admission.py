"""Admission of a worker's refs: the chunk must match the ref, within the worker's quota.

A ref uses rows and memory of a coordinator before its data is read, so it is compared with the chunk first.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ding.config.errors import ConfigValueError
from ding.parallel.planes import ChunkBroken, ChunkMissing, ChunkRef, DataPlane
from ding.worker.coordinator.buffers.metadata_buffer import checked_ref

log = logging.getLogger(__name__)

_MISSING_S = 0.5


def compare_with_chunks(plane: DataPlane, refs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int], dict[str, int]]:
    """Compare refs with their chunks.

    Returns:
        ``chunk -> bytes`` of the matching chunks, and ``chunk -> rows`` of the damaged chunks, which are quarantined.

    Raises:
        ValueError: A chunk does not exist, or has other rows or bytes.
        StorageError: The chunks cannot be read at present.
    """
    sizes: dict[str, int] = {}
    broken: dict[str, int] = {}
    for ref in refs:
        claimed = checked_ref(ref)
        try:
            found: Mapping[str, Any] = _describe(plane, claimed)
        except ChunkBroken as error:
            log.warning("%s", error)
            broken[claimed["chunk"]] = claimed["rows"]
            continue
        for key in ("rows", "bytes"):
            if claimed.get(key, found[key]) != found[key]:
                text = f"the {key!r} of ref {claimed['chunk']!r} must be {found[key]}, found {claimed[key]!r:.60}"
                raise ValueError(text)
        sizes[claimed["chunk"]] = found["bytes"]
    return sizes, broken


def _describe(plane: DataPlane, ref: Mapping[str, Any]) -> ChunkRef:
    try:
        return plane.describe(ref)
    except ChunkMissing:
        # A shared folder may show a new file with a delay.
        time.sleep(_MISSING_S)
    try:
        return plane.describe(ref)
    except ChunkMissing as error:
        raise ValueError(f"the 'chunk' of a ref must be one that was stored: {error}") from error


class WorkerQuota:
    """Counts the bytes of each worker that a buffer holds. Thread-safe.

    A worker beyond its quota loses its own oldest data, so that it neither fills the disk nor displaces the data of
    others. The quota never blocks.

    Args:
        max_bytes: Maximum per worker; 0: unlimited.
    """

    def __init__(self, max_bytes: int = 0) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        # Per worker, its chunks with their sizes, oldest first; and the worker of each chunk.
        self._chunks: dict[str, dict[str, int]] = {}
        self._worker_of: dict[str, str] = {}
        self._held: dict[str, int] = {}
        self._warned: set[str] = set()

    @classmethod
    def of_config(cls, max_bytes: int | str, path_data: str) -> WorkerQuota:
        """Create the quota of a config: bytes, or ``'auto'`` for half of the file system of ``path_data``.

        Raises:
            ConfigValueError: ``max_bytes`` is neither.
        """
        if max_bytes == "auto":
            return cls(shutil.disk_usage(path_data).total // 2 if os.path.isdir(path_data) else 0)
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 0:
            text = f"system_config.coordinator.max_worker_bytes must be 'auto' or bytes, found {max_bytes!r}"
            raise ConfigValueError(text)
        return cls(max_bytes)

    def mark(self, ref: dict[str, Any], worker: str, nbytes: int) -> None:
        """Store the worker and the actual size of a chunk in its ref, overwriting the worker's claims.

        Raises:
            ValueError: The chunk alone exceeds the quota.
        """
        ref.update(worker=worker, bytes=nbytes)
        if 0 < self._max_bytes < nbytes:
            text = f"system_config.coordinator.max_worker_bytes is {self._max_bytes}"
            raise ValueError(f"{text}, chunk {ref['chunk']!r} has {nbytes}")

    def enter(self, refs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Register chunks that a buffer holds; return the chunks to drop, the oldest of their workers."""
        with self._lock:
            return [surplus for ref in refs for surplus in self._enter(ref)]

    def _enter(self, ref: Mapping[str, Any]) -> list[str]:
        # Journals of earlier versions lack the worker of a chunk.
        worker, nbytes = ref.get("worker", ""), ref.get("bytes") or 0
        chunks = self._chunks.setdefault(worker, {})
        chunks[ref["chunk"]], self._worker_of[ref["chunk"]] = nbytes, worker
        self._held[worker] = self._held.get(worker, 0) + nbytes
        surplus = []
        for old in chunks:
            if not 0 < self._max_bytes < self._held[worker]:
                break
            surplus.append(old)
            self._held[worker] -= chunks[old]
        for old in surplus:
            del chunks[old], self._worker_of[old]
        if surplus and worker not in self._warned:
            self._warned.add(worker)
            log.warning("%s has more data than max_worker_bytes: its oldest rows are dropped", worker)
        return surplus

    def leave(self, refs: Sequence[Mapping[str, Any]]) -> None:
        """Remove chunks that no buffer holds any more."""
        with self._lock:
            for ref in refs:
                worker = self._worker_of.pop(ref["chunk"], None)
                if worker is not None:
                    self._held[worker] -= self._chunks[worker].pop(ref["chunk"])
                    if not self._chunks[worker]:
                        del self._chunks[worker], self._held[worker]

    def held(self) -> dict[str, int]:
        """Return the bytes held per worker."""
        with self._lock:
            return dict(self._held)
