"""Samples that stay columns until somebody looks at a single record."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from ding.data.buffer.buffer import BufferedData, plain_list
from ding.data.transition_batch import TransitionBatch

MISSING = object()
"""Stands in a column of meta values where a record lacks the key."""
_MAX_SERIAL = int(np.iinfo(np.int64).max)


def index_text(token: str, serial: int) -> str:
    """The index of a record: 16 hex digits of its buffer and 16 of its serial number."""
    return f"{token}{serial:016x}"


class IndexArray(Sequence[str]):
    """Indices of records. Looks like a list of strings, holds their serials (int64 ``[K]``)."""

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

    def __getitem__(self, item: "int | slice") -> Any:
        if isinstance(item, slice):
            return IndexArray(self.token, self.serials[item])
        return index_text(self.token, int(self.serials[item]))

    def __iter__(self) -> Iterator[str]:
        return (index_text(self.token, serial) for serial in self.serials.tolist())

    def __repr__(self) -> str:
        return f"IndexArray({len(self)} indices)"


def serials_of(indices: Sequence[Any], token: str) -> np.ndarray:
    """int64 ``[K]`` serials of indices; -1 for those that do not belong to the buffer with this token."""
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
    """N records as columns: a sequence of :class:`BufferedData` that are made when one is first taken.

    It is a copy: what a caller writes into it does not reach the buffer (``update`` does that).

    Args:
        data: the data of the records.
        token: of the buffer.
        serials: int64 ``[N]``, in which order the records were pushed.
        slots: int64 ``[N]``, the slots in which the records were.
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
        """The data of all records, as one batch of N rows."""
        if self._items is not None:
            return TransitionBatch.from_rows([item.data for item in self._items])
        return self._data

    @property
    def indices(self) -> IndexArray:
        """The indices of the records."""
        return IndexArray(self._token, self.serials)

    def meta_column(self, key: str, default: object = None) -> list[Any]:
        """The values of one meta key, ``default`` where a record lacks it."""
        if self._items is not None:
            return [item.meta.get(key, default) for item in self._items]
        if key not in self._meta:
            return [default] * len(self)
        return [default if value is MISSING else value for value in plain_list(self._meta[key])]

    def meta_array(self, key: str) -> np.ndarray:
        """The numbers of one meta key that all records have, as float64 ``[N]``."""
        if self._items is None and isinstance(self._meta.get(key), np.ndarray):
            return self._meta[key].astype(np.float64)
        return np.array(self.meta_column(key), dtype=np.float64)

    def with_data(self, **columns: Any) -> "RecordBatch":
        """The same records with columns added to their data."""
        return RecordBatch(
            self.data.with_columns(**columns), self._token, self.serials, self.slots, self._meta_columns()
        )

    def with_meta(self, **columns: Any) -> "RecordBatch":
        """The same records with columns of N values added to their meta."""
        return RecordBatch(self.data, self._token, self.serials, self.slots, {**self._meta_columns(), **columns})

    def split(self, lengths: Sequence[int]) -> "list[RecordBatch]":
        """Pieces of these lengths, which share memory."""
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

    def __getitem__(self, item: "int | slice") -> Any:
        return self._part(item) if isinstance(item, slice) else self._rows()[item]

    def __iter__(self) -> Iterator[BufferedData]:
        return iter(self._rows())

    def __repr__(self) -> str:
        return f"RecordBatch({len(self)} records)"


def metas_of(columns: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Columns of meta values as ``count`` dicts, without the keys that are :data:`MISSING`."""
    metas: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, values in columns.items():
        for meta, value in zip(metas, plain_list(values)):
            if value is not MISSING:
                meta[key] = value
    return metas
