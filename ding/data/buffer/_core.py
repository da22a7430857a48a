"""The records of a ``DequeBuffer``, shared by all its views."""

import threading
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np

from ding.data.buffer._draw import LazyGenerator
from ding.data.buffer._records import MISSING, IndexArray, RecordBatch, index_text, serials_of
from ding.data.buffer.buffer import BufferedData, spread_meta
from ding.data.columns import SchemaError, take
from ding.data.replay.index import SlotQueue
from ding.data.storage import (
    ElidedRows,
    ElidingStorage,
    Storage,
    StorageOptions,
    columns_of,
    is_elided,
    make_storage,
)
from ding.data.transition_batch import TransitionBatch

# Changes that are remembered, so that who keeps something per slot need not look at all slots.
_LOG_LENGTH = 16384

Records = RecordBatch | list[BufferedData]


class RecordCore:
    """``size`` slots, each of which holds nothing, an object record, or a row of columns with columns of meta values.

    Pushing to a full core replaces the oldest records. Callers hold :attr:`lock`.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.RLock()
        self.token = uuid.uuid4().hex[:16]
        self.order = SlotQueue(size)
        self.version = 0
        self.push_count = 0
        self._log: deque[Any] = deque(maxlen=_LOG_LENGTH)
        self._generator = LazyGenerator()
        self._groups: dict[Any, Any] = {}
        self._reset()

    def _reset(self) -> None:
        self._objects: dict[int, BufferedData] = {}
        self._storage: Storage | None = None
        self._meta: dict[Any, np.ndarray] = {}

    @property
    def rng(self) -> np.random.Generator:
        """Draws samples."""
        return self._generator()

    def random_state(self) -> dict[str, Any] | None:
        """The state of the generator of the draws."""
        return self._generator.state()

    def set_random_state(self, state: dict[str, Any] | None) -> None:
        """Go on from a :meth:`random_state`."""
        self._generator.set_state(state)

    @property
    def groups(self) -> dict[Any, Any]:
        """What is kept per ``groupby`` key."""
        return self._groups

    # ------------------------------------------------------------------ changes

    def changed_since(self, version: int) -> np.ndarray | None:
        """Slots (with repeats) that changed after :attr:`version` had this value; ``None``: look at all of them."""
        entries = self.version - version
        if entries > len(self._log):
            return None
        parts = [np.atleast_1d(entry) for entry in islice(reversed(self._log), entries)]
        return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, dtype=np.int64)

    def _note(self, slots: Any) -> None:
        self.version += 1
        self._log.append(slots)

    # ------------------------------------------------------------------ writing

    def push(self, data: Any, meta: dict | None) -> BufferedData:
        """Store one object."""
        serial = self.order.next_serial
        slot = self.order.append_one()
        record = BufferedData(data, index_text(self.token, serial), {} if meta is None else meta)
        self._objects[slot] = record
        self._note(slot)
        self.push_count += 1
        return record

    def extend(self, rows: Any, meta: Mapping[str, Any]) -> np.ndarray:
        """Store the rows (at most ``size``) of a batch or of a list of dicts as columns; returns their serials.

        Raises:
            SchemaError: the rows have no common schema, or do not fit to those that are stored as columns; nothing was
                changed.
        """
        count = len(rows)
        columns = rows.columns if isinstance(rows, TransitionBatch) else columns_of(list(rows))
        spread = {key: spread_meta(key, value, count) for key, value in meta.items()}
        slots = self.order.peek(count)
        if self._storage is None:
            self._storage = make_storage(columns, self.size, StorageOptions())
        self._write(columns, slots)
        if self._objects:
            for slot in slots.tolist():
                self._objects.pop(slot, None)
        for key, column in self._meta.items():
            if key not in spread:
                column[slots] = MISSING
        for key, values in spread.items():
            self._meta_column(key)[slots] = _objects_of(values)
        first = self.order.append(slots)
        self._note(slots)
        self.push_count += count
        return np.arange(first, first + count)

    def _write(self, columns: Any, slots: np.ndarray) -> None:
        """Write rows to slots, one write per run of slots: only deletions make more than one run."""
        assert self._storage is not None
        count = len(slots)
        ends = np.flatnonzero((slots[1:] - slots[:-1] - 1) % self.size) + 1
        if len(ends) == 0:
            self._storage.write(int(slots[0]), columns, count)
            return
        bounds = [0, *ends.tolist(), count]
        for begin, end in pairwise(bounds):
            self._storage.write(int(slots[begin]), take(columns, slice(begin, end)), end - begin)

    def _meta_column(self, key: Any) -> np.ndarray:
        column = self._meta.get(key)
        if column is None:
            column = self._meta[key] = np.empty(self.size, dtype=object)
            column.fill(MISSING)
        return column

    def set_data(self, slot: int, data: Any) -> None:
        """Replace the data of a record; a row of columns becomes an object."""
        record = self._objects.get(slot)
        if record is None:
            record = self._objects[slot] = self._row_as_object(slot)
        record.data = data

    def set_meta(self, slot: int, meta: dict) -> None:
        """Replace the whole meta of a record."""
        record = self._objects.get(slot)
        if record is not None:
            record.meta = meta
        else:
            for key in meta:
                self._meta_column(key)
            for key, column in self._meta.items():
                column[slot] = meta.get(key, MISSING)
        self._note(slot)

    def set_meta_columns(self, slots: np.ndarray, columns: Mapping[str, Any]) -> None:
        """Set some keys of the meta of several records."""
        spread = {key: _objects_of(spread_meta(key, value, len(slots))) for key, value in columns.items()}
        if self._objects:
            for place, slot in enumerate(slots.tolist()):
                record = self._objects.get(slot)
                if record is not None:
                    record.meta.update({key: values[place] for key, values in spread.items()})
        for key, values in spread.items():
            self._meta_column(key)[slots] = values
        self._note(slots)

    def remove(self, serials: np.ndarray) -> None:
        """Remove the records with these serials; others are ignored."""
        places = np.unique(self.order.find(serials))
        places = places[places >= 0]
        if len(places) == 0:
            return
        slots = self.order.remove(places)
        if self._storage is not None:
            self._storage.erase(slots)
        if self._objects:
            for slot in slots.tolist():
                self._objects.pop(slot, None)
        for column in self._meta.values():
            column[slots] = MISSING
        self._note(slots)

    def clear(self) -> None:
        """Remove all records and forget the schema."""
        if self._storage is not None:
            self._storage.close()
        self.order.clear()
        self._reset()
        self._log.clear()
        self.version += 1

    # ------------------------------------------------------------------ reading

    def slots_of(self, indices: Sequence[Any]) -> np.ndarray:
        """int64 ``[K]`` slots of records given by index; -1 where there is none."""
        places = self.order.find(serials_of(indices, self.token))
        if self.order.count == 0:
            return places
        return np.where(places >= 0, self.order.slots.take(places), -1)

    def indices_in(self, slots: np.ndarray) -> IndexArray:
        """The indices of the records in slots that hold one."""
        return IndexArray(self.token, self.order.serial_of_slot[slots])

    def read(self, places: np.ndarray) -> Records:
        """The records at places: columns if all of them are, else a list.

        The list holds the stored object records themselves, and copies of rows of columns.
        """
        slots, serials = self.order.slots.take(places), self.order.serials.take(places)
        if not self._objects:
            return self._read_columns(slots, serials)
        found = [self._objects.get(slot) for slot in slots.tolist()]
        rest = np.array([i for i, record in enumerate(found) if record is None], dtype=np.int64)
        if len(rest) == len(found):
            return self._read_columns(slots, serials)
        if len(rest):
            for i, record in zip(rest.tolist(), self._read_columns(slots[rest], serials[rest])):
                found[i] = record
        return found  # type: ignore[return-value]

    def _read_columns(self, slots: np.ndarray, serials: np.ndarray) -> Records:
        if self._storage is None:
            return []
        meta = {key: column.take(slots) for key, column in self._meta.items()}
        return RecordBatch(self._storage.read(slots), self.token, serials, slots, meta)

    def _row_as_object(self, slot: int) -> BufferedData:
        serials = self.order.serial_of_slot[slot : slot + 1]
        return self._read_columns(np.array([slot]), serials.copy())[0]

    def meta_values(self, key: Any, slots: np.ndarray, default: Any = None) -> list[Any]:
        """The values of one meta key in slots that hold records."""
        column = self._meta.get(key)
        values = [MISSING] * len(slots) if column is None else column.take(slots).tolist()
        if self._objects:
            for place, slot in enumerate(slots.tolist()):
                record = self._objects.get(slot)
                if record is not None:
                    values[place] = record.meta.get(key, MISSING)
        return [default if value is MISSING else value for value in values]

    # ------------------------------------------------------------------ state

    def contents(self) -> dict[str, Any]:
        """All records, oldest first: what :meth:`restore` takes. Objects are shared.

        ``columns`` are nested columns, or what ``ElidingStorage.compact`` gives where each observation is stored once.
        """
        slots, serials = self.order.slots, self.order.serials.copy()
        places = np.array([i for i, slot in enumerate(slots.tolist()) if slot in self._objects], dtype=np.int64)
        rows = np.setdiff1d(np.arange(len(slots)), places)
        records = [self._objects[slot] for slot in slots[places].tolist()]
        return {
            "token": self.token,
            "serials": serials,
            "layout": self.order.layout(),
            "next_serial": self.order.next_serial,
            "push_count": self.push_count,
            "row_places": rows,
            "columns": self._copied_rows(slots[rows]),
            "row_meta": {key: column[slots[rows]].tolist() for key, column in self._meta.items()},
            "objects": [record.data for record in records],
            "object_metas": [record.meta for record in records],
        }

    def _copied_rows(self, slots: np.ndarray) -> dict[str, Any]:
        if self._storage is None or len(slots) == 0:
            return {}
        if isinstance(self._storage, ElidingStorage):
            return self._storage.compact(slots)
        return self._storage.read(slots).columns

    def restore(self, contents: Mapping[str, Any]) -> None:
        """Become a core with these records (the newest ``size`` of them).

        Raises:
            SchemaError: elided rows are damaged; nothing was changed.
        """
        columns: Any = contents["columns"]
        if is_elided(columns):
            columns = ElidedRows(columns)
            if columns.count != len(contents["row_places"]):
                raise SchemaError(f"there are {columns.count} saved rows for {len(contents['row_places'])} records")
        serials = np.asarray(contents["serials"], dtype=np.int64)
        total = len(serials)
        drop = max(0, total - self.size)
        is_row = np.zeros(total, dtype=np.bool_)
        is_row[np.asarray(contents["row_places"], dtype=np.int64)] = True
        rows, objects = is_row[:drop].sum(), drop - is_row[:drop].sum()
        self.clear()
        self.token = contents["token"]
        self.push_count = int(contents["push_count"])
        slots = self.order.restore(serials[drop:], int(contents["next_serial"]), contents["layout"])
        self._restore_rows(slots[is_row[drop:]], columns, contents["row_meta"], int(rows))
        is_object = ~is_row[drop:]
        pairs = zip(contents["objects"][objects:], contents["object_metas"][objects:])
        for slot, serial, pair in zip(slots[is_object].tolist(), serials[drop:][is_object].tolist(), pairs):
            self._objects[slot] = BufferedData(pair[0], index_text(self.token, serial), pair[1])

    def _restore_rows(self, slots: np.ndarray, rows: Any, meta: Mapping[str, Any], skip: int) -> None:
        """Write the rows from ``skip`` on (of nested columns, or ``ElidedRows``) to slots."""
        if len(slots) == 0:
            return
        elided, stop = isinstance(rows, ElidedRows), skip + len(slots)
        # Of elided rows, only a part at a time is in full size.
        for begin, end in rows.chunks(skip, stop) if elided else [(skip, stop)]:
            part: Any = rows.expand(begin, end) if elided else take(rows, slice(begin, end))
            if self._storage is None:
                self._storage = make_storage(part, self.size, StorageOptions())
            self._write(part, slots[begin - skip : end - skip])
        for key, values in meta.items():
            self._meta_column(key)[slots] = _objects_of(values[skip:])


def _objects_of(values: Any) -> np.ndarray:
    """A column of meta values as an object array ``[K]`` (never broadcast, whatever the values are)."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values.astype(object)
    if hasattr(values, "tolist") and getattr(values, "ndim", 0) == 1:
        values = values.tolist()
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return column
