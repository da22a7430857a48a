"""Data plane in the memory of one process."""

import threading
from collections.abc import Sequence

from ding.parallel.planes.data_plane import StoredDataPlane
from ding.parallel.planes.errors import ChunkMissing
from ding.parallel.planes.frames import check_head, header_bytes
from ding.parallel.planes.inproc.shared import SharedByName


class _Frames:
    """``ChunkStore`` in a dict; chunks have the same bytes as in a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: dict[str, bytes] = {}

    def write(self, chunk: str, frame: bytes) -> None:
        with self._lock:
            self._frames[chunk] = frame

    def read(self, chunk: str) -> bytes:
        frame = self._frames.get(chunk)
        if frame is None:
            raise ChunkMissing(f"there is no chunk {chunk!r}")
        return frame

    def notes(self, chunk: str) -> tuple[dict[str, str], int]:
        frame = self.read(chunk)
        return check_head(frame[8 : 8 + header_bytes(frame, len(frame))], len(frame), "chunk"), len(frame)

    def delete(self, chunks: Sequence[str]) -> int:
        with self._lock:
            return sum(self._frames.pop(chunk, None) is not None for chunk in chunks)

    def quarantine(self, chunk: str) -> bool:
        return bool(self.delete([chunk]))

    def chunks(self) -> list[str]:
        with self._lock:
            return list(self._frames)

    def nbytes(self) -> int:
        with self._lock:
            return sum(map(len, self._frames.values()))


_shared: SharedByName[_Frames] = SharedByName(_Frames)


class InprocDataPlane(StoredDataPlane):
    """:class:`~ding.parallel.planes.DataPlane` in a dict.

    Args:
        root: Planes with the same name share their chunks, as in a common folder, until :func:`forget_inproc_planes`.
            ``None``: the plane is not shared.
        writer: Prefix of the ids of the chunks. By default a random name.
        max_bytes: A put that would exceed this size raises :class:`StorageFull`.
    """

    def __init__(self, root: "str | None" = None, writer: "str | None" = None, max_bytes: "int | None" = None) -> None:
        store = _Frames() if root is None else _shared.get(root)
        super().__init__(store, "this process" if root is None else repr(root), writer, max_bytes)


def forget_chunks(root: str) -> None:
    """Discard the chunks of the planes named ``root``; existing planes keep theirs."""
    _shared.forget(root)
