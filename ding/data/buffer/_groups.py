"""Records by the value of a meta key, in the order in which they came."""

from typing import Any

import numpy as np

from ding.data.buffer._core import RecordCore
from ding.data.buffer.errors import SampleArgumentError


class _Group:
    """Ascending serials in a growing array."""

    __slots__ = ("_array", "_begin", "_end")

    def __init__(self) -> None:
        self._array = np.empty(8, dtype=np.int64)
        self._begin = self._end = 0

    @property
    def serials(self) -> np.ndarray:
        return self._array[self._begin : self._end]

    def __len__(self) -> int:
        return self._end - self._begin

    def add(self, serials: np.ndarray) -> None:
        """Add serials that are not there; ascending ones at the end cost no search."""
        held = self.serials
        if len(held) and serials[0] < held[-1]:
            self._replace(np.sort(np.concatenate([held, serials])))
            return
        if self._end + len(serials) > len(self._array):
            room = np.empty(2 * (len(held) + len(serials)), dtype=np.int64)
            room[: len(held)] = held
            self._array, self._begin, self._end = room, 0, len(held)
        self._array[self._end : self._end + len(serials)] = serials
        self._end += len(serials)

    def drop(self, serials: np.ndarray) -> None:
        self._replace(np.setdiff1d(self.serials, serials, assume_unique=True))

    def drop_before(self, serial: int) -> None:
        self._begin += int(self.serials.searchsorted(serial))

    def _replace(self, serials: np.ndarray) -> None:
        self._array, self._begin, self._end = serials, 0, len(serials)


class GroupIndex:
    """The groups of one key. It looks at what changed since it was last asked.

    Args:
        core: the records.
        key: a meta key. Records without it form the group of ``None``.
    """

    def __init__(self, core: RecordCore, key: Any) -> None:
        self._core = core
        self._key = key
        self._rebuild()

    def _rebuild(self) -> None:
        core = self._core
        self._version = core.version
        self._groups: dict[Any, _Group] = {}
        self._serials = core.order.serial_of_slot.copy()
        self._values = np.full(core.size, None, dtype=object)
        slots = core.order.slots
        self._add(slots, core.order.serials, core.meta_values(self._key, slots))

    def groups(self) -> list[np.ndarray]:
        """The serials of each group, ascending; a group comes the earlier, the longer its value is known."""
        self._sync()
        if self._core.order.count == 0:
            self._groups = {}
            return []
        first = int(self._core.order.serials[0])
        for group in self._groups.values():
            group.drop_before(first)
        self._groups = {value: group for value, group in self._groups.items() if len(group)}
        return [group.serials for group in self._groups.values()]

    def _sync(self) -> None:
        core = self._core
        if self._version == core.version:
            return
        changed = core.changed_since(self._version)
        if changed is None or len(changed) >= core.size:
            self._rebuild()
            return
        self._version = core.version
        slots = np.unique(changed)
        now = core.order.serial_of_slot[slots]
        before = self._serials[slots]
        held = now >= 0
        values = np.full(len(slots), None, dtype=object)
        values[held] = _as_objects(core.meta_values(self._key, slots[held]))
        moved = (now != before) | _differ(values, self._values[slots])
        gone = moved & (before >= 0)
        self._remove(before[gone], self._values[slots[gone]])
        self._serials[slots] = now
        self._values[slots] = values
        come = np.flatnonzero(moved & held)
        come = come[np.argsort(now[come])]
        self._add(slots[come], now[come], values[come].tolist())

    def _add(self, slots: np.ndarray, serials: np.ndarray, values: list[Any]) -> None:
        self._values[slots] = _as_objects(values)
        for value, places in self._by_value(values).items():
            group = self._groups.get(value)
            if group is None:
                group = self._groups[value] = _Group()
            group.add(serials[places])

    def _remove(self, serials: np.ndarray, values: np.ndarray) -> None:
        for value, places in self._by_value(values.tolist()).items():
            group = self._groups.get(value)
            if group is not None:
                group.drop(serials[places])

    def _by_value(self, values: list[Any]) -> dict[Any, list[int]]:
        places: dict[Any, list[int]] = {}
        try:
            for place, value in enumerate(values):
                places.setdefault(value, []).append(place)
        except TypeError as error:
            raise SampleArgumentError(
                f"cannot group by {self._key!r}: its values must be hashable, found {type(value).__name__}"
            ) from error
        return places


def _differ(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    try:
        return np.array([a is not b and bool(a != b) for a, b in zip(values, others)], dtype=np.bool_)
    except (TypeError, ValueError, RuntimeError):
        # Arrays and tensors do not compare to one truth value. Grouping tells what it cannot use.
        return np.ones(len(values), dtype=np.bool_)


def _as_objects(values: list[Any]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return column


def draw_window(serials: np.ndarray, length: int, sliced: bool, rng: np.random.Generator) -> np.ndarray:
    """``length`` consecutive serials of a group that has at least so many.

    Args:
        serials: of the group, ascending.
        length: of the window.
        sliced: windows begin at multiples of ``length``, the last one at ``len(serials) - length``; each is drawn in
            proportion to the records that it is there for. Otherwise every start is equally likely.
        rng: draws the start.
    """
    total = len(serials)
    if sliced:
        start = int(rng.integers(total)) // length * length
        start = min(start, total - length)
    else:
        start = int(rng.integers(total - length + 1))
    return serials[start : start + length]
