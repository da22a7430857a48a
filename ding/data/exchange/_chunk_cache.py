"""The chunks that were read last, so that a row is not read from its file again and again."""

import threading
from collections import OrderedDict

from ding.data.exchange._frame import Content


class ChunkCache:
    """Least recently used chunks up to a number and a size.

    Args:
        max_chunks: how many; each mapped chunk holds a file descriptor.
        max_bytes: how large together. The one that was put last stays, however large.
    """

    def __init__(self, max_chunks: int, max_bytes: int) -> None:
        self._max_chunks = max_chunks
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._contents: OrderedDict[str, Content] = OrderedDict()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all cached chunks."""
        return self._nbytes

    def get(self, chunk: str) -> "Content | None":
        """The chunk, if it is here."""
        with self._lock:
            content = self._contents.get(chunk)
            if content is not None:
                self._contents.move_to_end(chunk)
            return content

    def put(self, chunk: str, content: Content) -> None:
        """Keep a chunk, at the cost of those that were not used for longest."""
        with self._lock:
            if chunk in self._contents:
                return
            self._contents[chunk] = content
            self._nbytes += content.nbytes
            while len(self._contents) > 1 and (
                len(self._contents) > self._max_chunks or self._nbytes > self._max_bytes
            ):
                self._nbytes -= self._contents.popitem(last=False)[1].nbytes

    def drop(self, chunk: str) -> None:
        """Forget a chunk."""
        with self._lock:
            content = self._contents.pop(chunk, None)
            if content is not None:
                self._nbytes -= content.nbytes

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._contents.clear()
            self._nbytes = 0
