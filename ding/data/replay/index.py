"""Which slot holds which row: rings, queues with free slots, and what is known of the row in a slot."""

from collections.abc import Mapping
from typing import Any

import numpy as np

# Another number than that of an id that is none, so that the two never match.
EMPTY = -2
# Stands for a row without ``collect_iter``.
UNKNOWN_ITER = int(np.iinfo(np.int64).min)


class Ring:
    """The slots of a ring. New rows go to the slots behind the newest one, whatever these hold.

    Rows may be removed; what they leave are holes, until the ring comes round. Not thread-safe.

    Args:
        size: number of slots.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.push_count = 0
        self.clear()

    def clear(self) -> None:
        """Forget all rows; ``push_count`` goes on."""
        # Slot of the next row, slots from the oldest to the newest row, and rows there.
        self.tail = self.span = self.count = 0
        # bool [size], where holes are; None while there are none.
        self._holes: np.ndarray | None = None

    @property
    def head(self) -> int:
        """Slot of the oldest row."""
        return (self.tail - self.span) % self.size

    def held(self) -> np.ndarray:
        """int64 slots that hold a row, oldest first."""
        return self._without_holes(self.head, self.span)

    def leaving(self, count: int) -> np.ndarray:
        """int64 slots of the rows that give way to ``count`` more, oldest first."""
        return self._without_holes(self.head, max(0, min(self.span, self.span + count - self.size)))

    def _without_holes(self, start: int, count: int) -> np.ndarray:
        slots = (start + np.arange(count)) % self.size
        return slots if self._holes is None else slots[~self._holes[slots]]

    def advance(self, count: int) -> int:
        """Take ``count`` more rows; returns how many, old and new ones, had to leave for that."""
        have, placed = self.count + count, min(count, self.size)
        if self._holes is None:
            self.count = self.span = min(have, self.size)
        else:
            self.count += placed - len(self.leaving(count))
            self._holes[(self.tail + np.arange(count - placed, count)) % self.size] = False
            self.span = min(self.size, self.span + count)
        self.tail = (self.tail + count) % self.size
        self.push_count += count
        if self._holes is not None:
            self._skip_holes()
        return have - self.count

    def remove(self, slots: np.ndarray) -> None:
        """Remove the rows in these (distinct) slots."""
        if self._holes is None:
            self._holes = np.zeros(self.size, dtype=np.bool_)
        self._holes[slots] = True
        self.count -= len(slots)
        self._skip_holes()

    def _skip_holes(self) -> None:
        """Begin with the oldest row."""
        if self._holes is not None and self._holes[self.head]:
            slots = (self.head + np.arange(self.span)) % self.size
            self.span = self.span - int(np.argmin(self._holes[slots])) if self.count else 0
        if self.count == self.span:
            self._holes = None

    @classmethod
    def restored(cls, size: int, tail: int, span: int, push_count: int, held: "np.ndarray | None" = None) -> "Ring":
        """A ring in this state; ``held`` is bool ``[size]``, ``None``: no holes.

        Raises:
            ValueError: there is no such ring.
        """
        if not 0 <= tail < size or not 0 <= span <= size:
            raise ValueError(f"{span} slots before slot {tail} of {size}")
        ring = cls(size)
        ring.tail, ring.span, ring.count, ring.push_count = tail, span, span, push_count
        if held is not None:
            ring._holes = ~held
            ring.count = len(ring.held())
            ring._skip_holes()
        return ring


class SlotTable:
    """What is known of the row in each slot of a ring: unique id, number of draws and train iteration of collection.

    Args:
        size: number of slots.
    """

    def __init__(self, size: int) -> None:
        self.unique_id = np.empty(size, dtype=np.int64)
        self.use_count = np.empty(size, dtype=np.int64)
        self.collect_iter = np.empty(size, dtype=np.int64)
        self.next_unique_id = 0
        self.clear()

    def clear(self) -> None:
        """Forget all rows; unique ids go on."""
        self.remove(slice(None))
        self._any_iter = False

    def fill(self, start: int, count: int, collect_iter: "int | np.ndarray") -> None:
        """Enter new rows.

        Args:
            start: slot of the first; the others follow, at the begin of the ring after its end.
            count: number of rows.
            collect_iter: one for all, or int64 ``[count]``.
        """
        size, first = len(self.unique_id), self.next_unique_id
        self.next_unique_id += count
        stop = start + count
        slots: Any = slice(start, stop) if stop <= size else (start + np.arange(count)) % size
        self.unique_id[slots] = np.arange(first, first + count)
        self.use_count[slots] = 0
        if self._any_iter or collect_iter is not UNKNOWN_ITER:
            self._any_iter = True
            self.collect_iter[slots] = collect_iter

    def remove(self, slots: "np.ndarray | slice") -> None:
        """Empty these slots."""
        self.unique_id[slots] = EMPTY
        self.use_count[slots] = 0
        self.collect_iter[slots] = UNKNOWN_ITER

    def holds(self, ids: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Whether row ``ids[i]`` is in slot ``slots[i]``, which may be no slot at all: bool ``[N]``, N > 0."""
        # Negative numbers become huge ones.
        inside = slots.view(np.uint64) < len(self.unique_id)
        if inside.all():
            return self.unique_id[slots] == ids
        return (self.unique_id[np.where(inside, slots, 0)] == ids) & inside

    def staleness(self, slots: np.ndarray, cur_iter: "int | np.ndarray") -> np.ndarray:
        """int64 ``[N]``: train iterations since the rows were collected; -1 where that is unknown."""
        if not self._any_iter:
            return np.full(len(slots), -1)
        collected = self.collect_iter[slots]
        stale = cur_iter - collected
        stale[collected == UNKNOWN_ITER] = -1
        return stale

    def state_dict(self) -> dict[str, Any]:
        """Copies of the arrays."""
        return {name: getattr(self, name).copy() for name in ("unique_id", "use_count", "collect_iter")}

    def load_state_dict(self, state: Mapping[str, Any], next_unique_id: int) -> None:
        """Take over a ``state_dict``.

        Raises:
            ValueError: an array has not the size of this table.
        """
        for name in ("unique_id", "use_count", "collect_iter"):
            getattr(self, name)[:] = state[name]
        self.next_unique_id = next_unique_id
        self._any_iter = bool((self.collect_iter != UNKNOWN_ITER).any())


class SlotQueue:
    """A queue of records in ``size`` slots. The oldest ones make room for new ones; any may be removed.

    Each record has a *serial* number that only grows, so the serials are sorted from the oldest record (place 0) to
    the newest, and a record is found by bisection. Not thread-safe.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        # A window slides over twice the space, so that it always lies in one piece.
        self._slots = np.empty(2 * size, dtype=np.int64)
        self._serials = np.empty(2 * size, dtype=np.int64)
        self.serial_of_slot = np.full(size, -1, dtype=np.int64)
        self.next_serial = 0
        self.clear()

    def clear(self) -> None:
        """Forget all records. Serials go on."""
        self._head = 0
        self.count = 0
        self._fresh = 0
        self._released = np.empty(0, dtype=np.int64)
        self.serial_of_slot.fill(-1)

    @property
    def slots(self) -> np.ndarray:
        """int64 ``[count]``, from the oldest to the newest. Do not write."""
        return self._slots[self._head : self._head + self.count]

    @property
    def serials(self) -> np.ndarray:
        """int64 ``[count]``, ascending. Do not write."""
        return self._serials[self._head : self._head + self.count]

    def peek(self, count: int) -> np.ndarray:
        """The slots that the next ``count`` (at most ``size``) records get: free ones, then those of the oldest."""
        fresh = min(count, self.size - self._fresh)
        parts = [np.arange(self._fresh, self._fresh + fresh)]
        if count > fresh:
            released = self._released[: count - fresh]
            parts += [released, self.slots[: count - fresh - len(released)]]
        return np.concatenate(parts)

    def append(self, slots: np.ndarray) -> int:
        """Take the slots that :meth:`peek` gave; returns the serial of the first record."""
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
        """The end of the window, with space for ``count`` more behind it."""
        end = self._head + self.count
        if end + count > len(self._slots):
            self._slots[: self.count] = self.slots
            self._serials[: self.count] = self.serials
            self._head, end = 0, self.count
        return end

    def remove(self, places: np.ndarray) -> np.ndarray:
        """Remove the records at sorted, distinct places; returns their slots."""
        slots = self.slots[places]
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
        """int64 places of int64 ``[K]`` serials; -1 for those that are not there."""
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
        """Which slots are taken by whom and which come next: what :meth:`restore` takes."""
        return {"size": self.size, "slots": self.slots.copy(), "fresh": self._fresh, "released": self._released.copy()}

    def restore(self, serials: np.ndarray, next_serial: int, layout: Mapping[str, Any]) -> np.ndarray:
        """Become a queue of records with these ascending serials; returns their slots.

        The layout is taken over if it is one of as many slots for as many records.
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
