"""Which slot holds which record, and in what order the records came."""

from collections.abc import Mapping
from typing import Any

import numpy as np


class SlotOrder:
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
        """Take the slots that :meth:`peek` told; returns the serial of the first record."""
        count = len(slots)
        fresh = min(count, self.size - self._fresh)
        released = min(count - fresh, len(self._released))
        evicted = count - fresh - released
        self._fresh += fresh
        self._released = self._released[released:]
        self._drop_oldest(evicted)
        end = self._make_room(count)
        first = self.next_serial
        serials = np.arange(first, first + count)
        self._slots[end : end + count] = slots
        self._serials[end : end + count] = serials
        self.serial_of_slot[slots] = serials
        self.count += count
        self.next_serial += count
        return first

    def append_one(self) -> int:
        """``append(peek(1))`` without arrays; returns the slot."""
        if self._fresh < self.size:
            slot = self._fresh
            self._fresh += 1
        elif len(self._released):
            slot = int(self._released[0])
            self._released = self._released[1:]
        else:
            slot = int(self._slots[self._head])
            self._drop_oldest(1)
        end = self._make_room(1)
        serial = self.next_serial
        self._slots[end] = slot
        self._serials[end] = serial
        self.serial_of_slot[slot] = serial
        self.count += 1
        self.next_serial += 1
        return slot

    def _drop_oldest(self, count: int) -> None:
        self._head += count
        self.count -= count

    def _make_room(self, count: int) -> int:
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
