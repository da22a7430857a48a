"""The records of a ``DequeBuffer``, shared by all its views."""

import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ding.data.buffer._records import MISSING, IndexArray, RecordBatch, SlotQueue, index_text, serials_of
from ding.data.buffer.buffer import BufferedData, plain_list, spread_meta
from ding.data.buffer.errors import SampleArgumentError
from ding.data.columns import SchemaError
from ding.data.replay.engine import RowStore
from ding.data.replay.priorities import Draws
from ding.data.storage import ElidedRows, SavedRows, StorageOptions, columns_of, is_elided
from ding.data.transition_batch import TransitionBatch

Records = RecordBatch | list[BufferedData]


class RecordCore:
    """``size`` slots, each empty or with an object record or a row of columns with columns of meta values.

    Pushing to a full core replaces the oldest records. Callers hold :attr:`lock`.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.RLock()
        self.token = uuid.uuid4().hex[:16]
        self.order = SlotQueue(size)
        self.draws = Draws()
        self.push_count = 0
        self._rows = RowStore(size, StorageOptions())
        self._objects: dict[int, BufferedData] = {}
        self._meta: dict[Any, np.ndarray] = {}
        # Groups per grouped meta key, valid until the next change.
        self._groups: dict[Any, list[np.ndarray] | None] = {}
        self._listeners: list[weakref.WeakMethod[Callable[[np.ndarray], None]]] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy: the records (some arrays of the storage are views of others) and the generator.

        A copy has its own lock and its middleware subscribes anew.
        """
        with self.lock:
            return {"size": self.size, "draws": self.draws, "grouped": self.grouped_keys(), "contents": self.contents()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        RecordCore.__init__(self, state["size"])
        self.restore(state["contents"])
        self.group_by(state["grouped"])
        self.draws = state["draws"]

    # ------------------------------------------------------------------ changes

    def listen(self, changed: Callable[[np.ndarray], None]) -> None:
        """Call a bound method with the (distinct) slots whose record or meta has changed, for the lifetime of its
        object. The method reads :attr:`order` for their contents.
        """
        self._listeners.append(weakref.WeakMethod(changed))

    def _changed(self, slots: np.ndarray) -> None:
        for key in self._groups:
            self._groups[key] = None
        for listener in self._listeners:
            call = listener()
            if call is not None:
                call(slots)
        self._listeners = [listener for listener in self._listeners if listener() is not None]

    # ------------------------------------------------------------------ writing

    def push(self, data: object, meta: dict[str, Any] | None) -> BufferedData:
        """Store one object."""
        slots = self.order.peek(1)
        serial = self.order.append(slots)
        record = BufferedData(data, index_text(self.token, serial), {} if meta is None else meta)
        self._objects[int(slots[0])] = record
        self.push_count += 1
        self._changed(slots)
        return record

    def extend(self, rows: "TransitionBatch | Sequence[Any]", meta: Mapping[str, Any]) -> None:
        """Store the rows (at most ``size``) of a batch or of a list of dicts as columns.

        Raises:
            SchemaError: The rows have no common schema, or do not match the stored columns; nothing was changed.
        """
        count = len(rows)
        columns = rows.columns if isinstance(rows, TransitionBatch) else columns_of(list(rows))
        spread = {key: spread_meta(key, value, count) for key, value in meta.items()}
        slots = self.order.peek(count)
        self._rows.write_to(slots, columns)
        if self._objects:
            for slot in slots.tolist():
                self._objects.pop(slot, None)
        for key, column in self._meta.items():
            if key not in spread:
                column[slots] = MISSING
        for key, values in spread.items():
            self._meta_column(key)[slots] = objects_of(values)
        self.order.append(slots)
        self.push_count += count
        self._changed(slots)

    def _meta_column(self, key: str) -> np.ndarray:
        column = self._meta.get(key)
        if column is None:
            column = self._meta[key] = np.empty(self.size, dtype=object)
            column.fill(MISSING)
        return column

    def set_data(self, slot: int, data: object) -> None:
        """Replace the data of a record; a row of columns becomes an object."""
        record = self._objects.get(slot)
        if record is None:
            record = self._objects[slot] = self._row_as_object(slot)
        record.data = data

    def set_meta(self, slot: int, meta: dict[str, Any]) -> None:
        """Replace the whole meta of a record."""
        record = self._objects.get(slot)
        if record is not None:
            record.meta = meta
        else:
            for key in meta:
                self._meta_column(key)
            for key, column in self._meta.items():
                column[slot] = meta.get(key, MISSING)
        self._changed(np.array([slot]))

    def set_meta_columns(self, slots: np.ndarray, columns: Mapping[str, Any]) -> None:
        """Set some keys of the meta of several records."""
        spread = {key: objects_of(spread_meta(key, value, len(slots))) for key, value in columns.items()}
        if self._objects:
            for place, slot in enumerate(slots.tolist()):
                record = self._objects.get(slot)
                if record is not None:
                    record.meta.update({key: values[place] for key, values in spread.items()})
        for key, values in spread.items():
            self._meta_column(key)[slots] = values
        self._changed(slots)

    def remove(self, serials: np.ndarray) -> None:
        """Remove the records with these serials; unknown serials are ignored."""
        places = np.unique(self.order.find(serials))
        places = places[places >= 0]
        if len(places) == 0:
            return
        slots = self.order.remove(places)
        self._rows.erase(slots)
        if self._objects:
            for slot in slots.tolist():
                self._objects.pop(slot, None)
        for column in self._meta.values():
            column[slots] = MISSING
        self._changed(slots)

    def clear(self) -> None:
        """Remove all records and forget the schema."""
        self._rows.clear()
        self.order.clear()
        self._objects, self._meta = {}, {}
        self._changed(np.arange(self.size))

    # ------------------------------------------------------------------ reading

    def places_of(self, indices: Sequence[Any]) -> np.ndarray:
        """int64 ``[K]`` places of records given by index; -1 where there is none."""
        return self.order.find(serials_of(indices, self.token))

    def slots_of(self, indices: Sequence[Any]) -> np.ndarray:
        """int64 ``[K]`` slots of records given by index; -1 where there is none."""
        places = self.places_of(indices)
        if self.order.count == 0:
            return places
        return np.where(places >= 0, self.order.slots.take(places), -1)

    def indices_in(self, slots: np.ndarray) -> IndexArray:
        """Return the indices of the records in slots that hold one."""
        return IndexArray(self.token, self.order.serial_of_slot[slots])

    def read(self, places: np.ndarray) -> Records:
        """Return the records at places: columns if all of them are columns, else a list.

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
        if self._rows.storage is None:
            return []
        meta = {key: column.take(slots) for key, column in self._meta.items()}
        rows = self._rows.read(slots)
        assert isinstance(rows, TransitionBatch)
        return RecordBatch(rows, self.token, serials, slots, meta)

    def _row_as_object(self, slot: int) -> BufferedData:
        serials = self.order.serial_of_slot[slot : slot + 1]
        return self._read_columns(np.array([slot]), serials.copy())[0]

    def meta_values(self, key: str, slots: np.ndarray, default: object = None) -> list[Any]:
        """Return the values of one meta key in slots that hold records."""
        column = self._meta.get(key)
        values = [MISSING] * len(slots) if column is None else column.take(slots).tolist()
        if self._objects:
            for place, slot in enumerate(slots.tolist()):
                record = self._objects.get(slot)
                if record is not None:
                    values[place] = record.meta.get(key, MISSING)
        return [default if value is MISSING else value for value in values]

    def groups(self, key: str) -> list[np.ndarray]:
        """Group records by a meta key: return the ascending serials, int64 ``[K]``, of each group.

        Records without the key form the group of ``None``.

        Raises:
            SampleArgumentError: A value is not hashable.
        """
        groups = self._groups.get(key)
        if groups is None:
            by_value: dict[Any, list[int]] = {}
            for value, serial in zip(self.meta_values(key, self.order.slots), self.order.serials.tolist()):
                try:
                    by_value.setdefault(value, []).append(serial)
                except TypeError as error:
                    raise SampleArgumentError(
                        f"cannot group by {key!r}: its values must be hashable, found {type(value).__name__}"
                    ) from error
            groups = self._groups[key] = [np.array(serials, dtype=np.int64) for serials in by_value.values()]
        return groups

    def group_by(self, keys: Iterable[str]) -> None:
        """Maintain groups for these meta keys only."""
        self._groups = dict.fromkeys(keys)

    def grouped_keys(self) -> list[str]:
        """Return the meta keys that records are grouped by."""
        return list(self._groups)

    # ------------------------------------------------------------------ state

    def contents(self) -> dict[str, Any]:
        """Return all records, oldest first, in the form that :meth:`restore` takes. Objects are shared.

        ``columns`` are nested columns, or deduplicated rows, where each observation is stored once.
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
            "columns": self._rows.copied(slots[rows]) if len(rows) else {},
            "row_meta": {key: column[slots[rows]].tolist() for key, column in self._meta.items()},
            "objects": [record.data for record in records],
            "object_metas": [record.meta for record in records],
        }

    def restore(self, contents: Mapping[str, Any]) -> None:
        """Replace the contents by these records (the newest ``size`` of them).

        Raises:
            SchemaError: Deduplicated rows are damaged; nothing was changed.
        """
        columns, num_rows = contents["columns"], len(contents["row_places"])
        saved = ElidedRows(columns) if is_elided(columns) else SavedRows(columns, num_rows)
        if saved.count != num_rows:
            raise SchemaError(f"there are {saved.count} saved rows for {num_rows} records")
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
        self._restore_rows(slots[is_row[drop:]], saved, contents["row_meta"], int(rows))
        is_object = ~is_row[drop:]
        pairs = zip(contents["objects"][objects:], contents["object_metas"][objects:])
        for slot, serial, pair in zip(slots[is_object].tolist(), serials[drop:][is_object].tolist(), pairs):
            self._objects[slot] = BufferedData(pair[0], index_text(self.token, serial), pair[1])

        self._changed(np.arange(self.size))

    def _restore_rows(self, slots: np.ndarray, rows: SavedRows, meta: Mapping[str, Any], skip: int) -> None:
        """Write the rows from ``skip`` on to slots, expanding only a part at a time."""
        if len(slots) == 0:
            return
        for begin, end in rows.chunks(skip, skip + len(slots)):
            self._rows.write_to(slots[begin - skip : end - skip], rows.expand(begin, end))
        for key, values in meta.items():
            self._meta_column(key)[slots] = objects_of(values[skip:])


def objects_of(values: "Sequence[Any] | np.ndarray") -> np.ndarray:
    """Return a column of meta values as an object array ``[K]`` (never broadcast, whatever the values are)."""
    return np.fromiter(plain_list(values), dtype=object, count=len(values))
