"""Maps from indices to places, and the records as a sequence."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from ding.data.buffer._core import RecordCore
from ding.data.buffer.buffer import BufferedData
from ding.data.buffer.errors import UnknownIndexError

if TYPE_CHECKING:
    from ding.data.buffer.deque_buffer import DequeBuffer


class BufferIndex:
    """The places of the last ``maxlen`` appended keys.

    Args:
        maxlen: Number of keys kept.
    """

    def __init__(self, maxlen: int) -> None:
        self.maxlen = maxlen
        self.clear()

    def append(self, key: str) -> None:
        """Append a key; beyond ``maxlen`` keys, the oldest one is dropped."""
        self._numbers.pop(key, None)
        self._numbers[key] = self._total
        self._total += 1
        if len(self._numbers) > self.maxlen:
            del self._numbers[next(iter(self._numbers))]

    def has(self, key: str) -> bool:
        """Return whether a key is present."""
        return key in self._numbers

    def get(self, key: str) -> int:
        """Return the place of a key; 0 is the oldest of the last ``maxlen`` appended keys.

        Raises:
            KeyError: The key is missing.
        """
        return self._numbers[key] + min(0, self.maxlen - self._total)

    def clear(self) -> None:
        """Remove all keys."""
        self._numbers: dict[str, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._numbers)


class IndexView:
    """Read-only :class:`BufferIndex` over the records of a buffer."""

    def __init__(self, core: RecordCore) -> None:
        self._core = core

    def has(self, key: str) -> bool:
        """Return whether a record has this index."""
        with self._core.lock:
            return bool(self._core.places_of([key])[0] >= 0)

    def get(self, key: str) -> int:
        """Return the place of the record with this index; the oldest record has place 0.

        Raises:
            KeyError: There is none.
        """
        with self._core.lock:
            place = int(self._core.places_of([key])[0])
        if place < 0:
            raise UnknownIndexError(f"no record with index {key!r} in a buffer that holds {len(self)}")
        return place

    def __len__(self) -> int:
        return self._core.order.count


class StorageView(Sequence[BufferedData]):
    """The records of a buffer, oldest first."""

    def __init__(self, buffer: "DequeBuffer") -> None:
        self._buffer = buffer
        self.maxlen = buffer.size

    def __len__(self) -> int:
        return self._buffer.count()

    @overload
    def __getitem__(self, item: int) -> BufferedData: ...
    @overload
    def __getitem__(self, item: slice) -> list[BufferedData]: ...
    def __getitem__(self, item: "int | slice") -> BufferedData | list[BufferedData]:
        return self._buffer.export_data()[item] if isinstance(item, slice) else self._buffer.get(item)

    def __iter__(self) -> Iterator[BufferedData]:
        return iter(self._buffer)
