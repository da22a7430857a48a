"""Records of a buffer: slots, order, indices, and samples that stay columns until a record is accessed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from ding.data.buffer.buffer import BufferedData, plain_list
from ding.data.transition_batch import TransitionBatch


class _Missing:
    def __reduce__(self) -> str:
        return "MISSING"  # copies and unpickled objects are the object itself


MISSING = _Missing()
"""Marks a missing key in a column of meta values."""
_MAX_SERIAL = int(np.iinfo(np.int64).max)


def index_text(token: str, serial: int) -> str:
    """Return the index of a record: 16 hex digits of its buffer and 16 of its serial number."""
    return f"{token}{serial:016x}"


class IndexArray(Sequence[str]):
    """Indices of records as a list of strings, backed by their serials (int64 ``[K]``)."""

    __slots__ = ("serials", "token")

    def __init__(self, token: str, serials: np.ndarray) -> None:
        self.token = token
        self.serials = serials

    def __len__(self) -> int:
        return len(self.serials)

    @overload
    def __getitem__(self, item: int) -> str: ...

    @overload
    def __getitem__(self, item: slice) -> "IndexArray": ...

    def __getitem__(self, item: "int | slice") -> object:
        if isinstance(item, slice):
            return IndexArray(self.token, self.serials[item])
        return index_text(self.token, int(self.serials[item]))

    def __iter__(self) -> Iterator[str]:
        return (index_text(self.token, serial) for serial in self.serials.tolist())

    def __repr__(self) -> str:
        return f"IndexArray({len(self)} indices)"


def serials_of(indices: Sequence[Any], token: str) -> np.ndarray:
    """Return the serials, int64 ``[K]``, of indices; -1 for those of another buffer than ``token``."""
    if isinstance(indices, IndexArray):
        return indices.serials if indices.token == token else np.full(len(indices), -1, dtype=np.int64)
    return np.array([_serial_of(index, token) for index in indices], dtype=np.int64)


def _serial_of(index: object, token: str) -> int:
    if not isinstance(index, str) or len(index) != 32 or not index.startswith(token):
        return -1
    try:
        serial = int(index[16:], 16)
    except ValueError:
        return -1
    return serial if 0 <= serial <= _MAX_SERIAL else -1


class RecordBatch(Sequence[BufferedData]):
    """N records as columns: a sequence of :class:`BufferedData` that are created on first access.

    It is a copy: writes do not affect the buffer; use ``update`` for that.

    Args:
        data: the data of the records.
        token: Token of the buffer.
        serials: int64 ``[N]``, the push order of the records.
        slots: int64 ``[N]``, the slots of the records.
        meta: columns of N values per meta key; see :data:`MISSING`.
    """

    __slots__ = ("_data", "_items", "_meta", "_token", "serials", "slots")

    def __init__(
        self, data: TransitionBatch, token: str, serials: np.ndarray, slots: np.ndarray, meta: Mapping[str, Any]
    ) -> None:
        self._data = data
        self._token = token
        self.serials = serials
        self.slots = slots
        self._meta = dict(meta)
        self._items: list[BufferedData] | None = None

    @property
    def data(self) -> TransitionBatch:
        """Data of all records, as one batch of N rows."""
        if self._items is not None:
            return TransitionBatch.from_rows([item.data for item in self._items])
        return self._data

    @property
    def indices(self) -> IndexArray:
        """Indices of the records."""
        return IndexArray(self._token, self.serials)

    def meta_column(self, key: str, default: object = None) -> list[Any]:
        """Return the values of one meta key, ``default`` where a record lacks it."""
        if self._items is not None:
            return [item.meta.get(key, default) for item in self._items]
        if key not in self._meta:
            return [default] * len(self)
        return [default if value is MISSING else value for value in plain_list(self._meta[key])]

    def meta_array(self, key: str) -> np.ndarray:
        """Return the numbers of one meta key that all records have, as float64 ``[N]``."""
        if self._items is None and isinstance(self._meta.get(key), np.ndarray):
            values: np.ndarray = self._meta[key].astype(np.float64)
            return values
        return np.array(self.meta_column(key), dtype=np.float64)

    def with_data(self, **columns: Any) -> "RecordBatch":
        """Return the same records with columns added to their data."""
        return RecordBatch(
            self.data.with_columns(**columns), self._token, self.serials, self.slots, self._meta_columns()
        )

    def with_meta(self, **columns: Any) -> "RecordBatch":
        """Return the same records with columns of N values added to their meta."""
        return RecordBatch(self.data, self._token, self.serials, self.slots, {**self._meta_columns(), **columns})

    def split(self, lengths: Sequence[int]) -> "list[RecordBatch]":
        """Split into pieces of these lengths, which share memory."""
        ends = np.cumsum(lengths).tolist()
        return [self._part(slice(end - length, end)) for end, length in zip(ends, lengths)]

    def _part(self, item: slice) -> "RecordBatch":
        meta = {key: value[item] for key, value in self._meta_columns().items()}
        return RecordBatch(self.data[item], self._token, self.serials[item], self.slots[item], meta)

    def _meta_columns(self) -> dict[str, Any]:
        if self._items is None:
            return self._meta
        keys = dict.fromkeys(key for item in self._items for key in item.meta)
        return {key: [item.meta.get(key, MISSING) for item in self._items] for key in keys}

    def _rows(self) -> list[BufferedData]:
        if self._items is None:
            metas = metas_of(self._meta, len(self))
            self._items = [BufferedData(*row) for row in zip(self._data.rows(), self.indices, metas)]
        return self._items

    def __len__(self) -> int:
        return len(self.serials)

    @overload
    def __getitem__(self, item: int) -> BufferedData: ...

    @overload
    def __getitem__(self, item: slice) -> "RecordBatch": ...

    def __getitem__(self, item: "int | slice") -> object:
        return self._part(item) if isinstance(item, slice) else self._rows()[item]

    def __iter__(self) -> Iterator[BufferedData]:
        return iter(self._rows())

    def __repr__(self) -> str:
        return f"RecordBatch({len(self)} records)"


def metas_of(columns: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return columns of meta values as ``count`` dicts, without entries that are :data:`MISSING`."""
    metas: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, values in columns.items():
        for meta, value in zip(metas, plain_list(values)):
            if value is not MISSING:
                meta[key] = value
    return metas


class SlotQueue:
    """A queue of records in ``size`` slots. New records replace the oldest ones; any record may be removed.

    Each record has a *serial* number that only increases. Serials are therefore sorted from the oldest record (place 0)
    to the newest, and a record is found by bisection. Not thread-safe.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        # A window slides over twice the space, so that it is always contiguous.
        self._slots = np.empty(2 * size, dtype=np.int64)
        self._serials = np.empty(2 * size, dtype=np.int64)
        self.serial_of_slot = np.full(size, -1, dtype=np.int64)
        self.next_serial = 0
        self.clear()

    def clear(self) -> None:
        """Remove all records. Serials keep increasing."""
        self._head = 0
        self.count = 0
        self._fresh = 0
        self._released = np.empty(0, dtype=np.int64)
        self.serial_of_slot.fill(-1)

    @property
    def slots(self) -> np.ndarray:
        """Slots from the oldest to the newest record, int64 ``[count]``. Read-only."""
        return self._slots[self._head : self._head + self.count]

    @property
    def serials(self) -> np.ndarray:
        """Serials, int64 ``[count]``, ascending. Read-only."""
        return self._serials[self._head : self._head + self.count]

    def peek(self, count: int) -> np.ndarray:
        """Return the slots of the next ``count`` (at most ``size``) records: free ones, then the oldest records'."""
        fresh = min(count, self.size - self._fresh)
        parts = [np.arange(self._fresh, self._fresh + fresh)]
        if count > fresh:
            released = self._released[: count - fresh]
            parts += [released, self.slots[: count - fresh - len(released)]]
        return np.concatenate(parts)

    def append(self, slots: np.ndarray) -> int:
        """Occupy the slots returned by :meth:`peek`; return the serial of the first record."""
        count = len(slots)
        fresh = min(count, self.size - self._fresh)
        released = min(count - fresh, len(self._released))
        evicted = count - fresh - released
        self._fresh += fresh
        self._released = self._released[released:]
        self._drop_oldest(evicted)
        end = self._end_with_space(count)
        first = self.next_serial
        serials = np.arange(first, first + count)
        self._slots[end : end + count] = slots
        self._serials[end : end + count] = serials
        self.serial_of_slot[slots] = serials
        self.count += count
        self.next_serial += count
        return first

    def _drop_oldest(self, count: int) -> None:
        self._head += count
        self.count -= count

    def _end_with_space(self, count: int) -> int:
        """Return the end of the window, with room for ``count`` more after it."""
        end = self._head + self.count
        if end + count > len(self._slots):
            self._slots[: self.count] = self.slots
            self._serials[: self.count] = self.serials
            self._head, end = 0, self.count
        return end

    def remove(self, places: np.ndarray) -> np.ndarray:
        """Remove the records at sorted, distinct places; return their slots."""
        slots: np.ndarray = self.slots[places]
        if len(places) and places[-1] == len(places) - 1:
            self._drop_oldest(len(places))
        else:
            keep = np.ones(self.count, dtype=np.bool_)
            keep[places] = False
            left = int(np.count_nonzero(keep))
            for array in (self._slots, self._serials):
                window = array[self._head : self._head + self.count]
                window[:left] = window[keep]
            self.count = left
        self.serial_of_slot[slots] = -1
        self._released = np.concatenate([self._released, slots])
        return slots

    def find(self, serials: np.ndarray) -> np.ndarray:
        """Return the places, int64, of serials, int64 ``[K]``; -1 for missing ones."""
        held = self.serials
        count = self.count
        if count == 0:
            return np.full(len(serials), -1, dtype=np.int64)
        if held[-1] - held[0] + 1 == count:
            places = serials - held[0]
            there = (places >= 0) & (places < count)
        else:
            places = np.minimum(held.searchsorted(serials), count - 1)
            there = held.take(places) == serials
        return places if there.all() else np.where(there, places, -1)

    def layout(self) -> dict[str, Any]:
        """Return the assignment of slots and the order of free ones, in the form that :meth:`restore` takes."""
        return {"size": self.size, "slots": self.slots.copy(), "fresh": self._fresh, "released": self._released.copy()}

    def restore(self, serials: np.ndarray, next_serial: int, layout: Mapping[str, Any]) -> np.ndarray:
        """Restore a queue of records with these ascending serials; return their slots.

        The layout is used if its numbers of slots and records match.
        """
        self.clear()
        count = len(serials)
        if layout["size"] == self.size and len(layout["slots"]) == count:
            slots = np.asarray(layout["slots"], dtype=np.int64)
            self._fresh = int(layout["fresh"])
            self._released = np.asarray(layout["released"], dtype=np.int64)
        else:
            slots = np.arange(count)
            self._fresh = count
        self._slots[:count] = slots
        self._serials[:count] = serials
        self.serial_of_slot[slots] = serials
        self.count = count
        self.next_serial = next_serial
        return slots
