"""What a buffer knows of its rows beside their data: which slot of a ring holds which row, their ids, priorities and
train iterations as they come in with pushes and updates, and how ids look in a sample.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ding.data.replay.errors import BufferArgumentError

Rows: TypeAlias = "dict[str, Any] | list[Any]"
"""Rows as nested columns, or as a list."""

_MISSING = -1
_LARGEST = int(np.iinfo(np.int64).max)
_SHOWN = 10
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
        """Return a ring in this state; ``held`` is bool ``[size]``, ``None``: no holes.

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
        slots = slice(start, stop) if stop <= size else (start + np.arange(count)) % size
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
        """Return whether row ``ids[i]`` is in slot ``slots[i]``, which may be no slot at all: bool ``[N]``."""
        # Negative numbers become huge ones.
        inside = slots.view(np.uint64) < len(self.unique_id)
        same: np.ndarray
        if inside.all():
            same = self.unique_id[slots] == ids
        else:
            same = (self.unique_id[np.where(inside, slots, 0)] == ids) & inside
        return same

    def use(self, slots: np.ndarray) -> np.ndarray:
        """Count a draw of the rows in these slots, with repeats; return how often each was drawn, int64 ``[N]``."""
        np.add.at(self.use_count, slots, 1)
        uses: np.ndarray = self.use_count.take(slots)
        return uses

    def used_up(self, slots: np.ndarray, max_use: float) -> np.ndarray:
        """Return those of these slots, each once, whose row was drawn ``max_use`` times or more."""
        return np.unique(slots[self.use_count[slots] >= max_use]) if max_use < math.inf else slots[:0]

    def staleness(self, slots: np.ndarray, cur_iter: "int | np.ndarray") -> np.ndarray:
        """int64 ``[N]``: train iterations since the rows were collected; -1 where that is unknown."""
        if not self._any_iter:
            return np.full(len(slots), -1)
        collected = self.collect_iter[slots]
        stale: np.ndarray = cur_iter - collected
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


class UniqueIds(np.ndarray):
    """int64 column of running numbers whose rows are the texts ``<name>_<number>``.

    Texts are made when rows are taken: at once, and read again by each update, they would double the time of a
    prioritised sample and update of 256 rows (nothing that a whole serial run shows).
    """

    prefix: str

    def __array_finalize__(self, source: object) -> None:
        self.prefix = getattr(source, "prefix", "")

    def __reduce__(self) -> tuple[Any, ...]:
        return unique_ids, (np.asarray(self), self.prefix)

    def tolist(self) -> list[Any]:
        """Return the texts."""
        if self.ndim != 1:
            nested: list[Any] = np.asarray(self).tolist()
            return nested
        return [f"{self.prefix}_{number}" for number in np.asarray(self).tolist()]


def unique_ids(numbers: np.ndarray, prefix: str) -> UniqueIds:
    """``numbers`` (int64 ``[N]``, shared) as ids of the buffer ``prefix``."""
    ids = numbers.view(UniqueIds)
    ids.prefix = prefix
    return ids


def id_numbers(ids: "Iterable[object] | np.ndarray | torch.Tensor", prefix: str) -> np.ndarray:
    """Running numbers int64 ``[N]`` of ids in any form; -1 for what is no id of the buffer ``prefix``.

    Raises:
        BufferArgumentError: ``ids`` cannot be iterated over.
    """
    if isinstance(ids, UniqueIds):
        return np.asarray(ids) if ids.prefix == prefix else np.full(len(ids), _MISSING)
    if isinstance(ids, torch.Tensor):
        ids = ids.cpu().numpy()
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        # Ids are not negative; what is below -1 may be the mark of an empty slot.
        return np.maximum(ids.astype(np.int64, copy=False).reshape(-1), _MISSING)
    try:
        return np.array([_id_number(one, prefix) for one in ids], dtype=np.int64)
    except TypeError as error:
        raise BufferArgumentError(f"replay_unique_id must be a list or an array, found {ids!r:.200}") from error


def _id_number(one: object, prefix: str) -> int:
    if isinstance(one, str):
        name, _, number = one.rpartition("_")
        # A number of more digits may not fit; there has never been such an id.
        return int(number) if name == prefix and number.isdecimal() and len(number) <= 18 else _MISSING
    return int(one) if isinstance(one, (int, np.integer)) and 0 <= one <= _LARGEST else _MISSING


def slot_numbers(positions: "Iterable[Any] | np.ndarray | torch.Tensor") -> np.ndarray:
    """Positions int64 ``[N]`` in any form; -1 for ``None``.

    Raises:
        BufferArgumentError: one is no number of 64 bits.
    """
    if isinstance(positions, torch.Tensor):
        positions = positions.cpu().numpy()
    try:
        if isinstance(positions, np.ndarray):
            return positions.astype(np.int64, copy=False).reshape(-1)
        return np.array([_MISSING if one is None else int(one) for one in positions], dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BufferArgumentError(f"replay_buffer_idx must be slot numbers, found {positions!r:.200}") from error


def checked_priorities(
    values: "torch.Tensor | np.ndarray | Sequence[Any]", where: str, error_type: type[Exception] = BufferArgumentError
) -> np.ndarray:
    """Priorities float64 ``[N]`` of a tensor, an array or a list.

    Raises:
        BufferArgumentError: one is negative, NaN or infinite; the message says which. Or another ``error_type``.
    """
    try:
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().numpy()
        elif isinstance(values, list):
            values = [float(value) if isinstance(value, torch.Tensor) else value for value in values]
        priorities = np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise error_type(f"{where} must be numbers, found {values!r:.200}") from error
    # Several times faster than min and max. Of an array with NaN it is the NaN that they find.
    if not len(priorities) or (priorities[priorities.argmin()] >= 0 and priorities[priorities.argmax()] < math.inf):
        return priorities
    bad = np.flatnonzero(~((priorities >= 0) & (priorities < np.inf)))
    found = {int(i): float(priorities[i]) for i in bad[:_SHOWN]}
    raise error_type(
        f"{where} must be finite and not negative; {len(bad)} of {len(priorities)} are not, by index: {found}"
    )


def read_update(info: Mapping[str, Any], prefix: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Running numbers int64 ``[N]``, slots int64 ``[N]`` and priorities float64 ``[N]``.

    Args:
        info: what ``update`` of a prioritised buffer was given, with the key ``priority``.
        prefix: what the ids of the buffer begin with.

    Raises:
        BufferArgumentError: an entry is missing or not what it should be, or lengths differ.
    """
    missing = [key for key in ("replay_unique_id", "replay_buffer_idx") if key not in info]
    if missing:
        raise BufferArgumentError(f"an update of priorities needs the keys {missing}, found {list(info)}")
    ids = id_numbers(info["replay_unique_id"], prefix)
    slots = slot_numbers(info["replay_buffer_idx"])
    priority = checked_priorities(info["priority"], "priority of the update")
    if not len(ids) == len(slots) == len(priority):
        raise BufferArgumentError(
            f"an update needs as many ids as positions and priorities, found {len(ids)}, {len(slots)} and "
            f"{len(priority)}"
        )
    return ids, slots, priority


def split_rows(
    rows: Rows, count: int, default: float, added: frozenset[str]
) -> "tuple[float | np.ndarray, int | np.ndarray, Rows]":
    """What a buffer needs to know of pushed rows, and the rows without what it adds itself.

    Args:
        rows: columns, or a list of dicts.
        count: number of rows.
        default: priority of rows without one.
        added: fields that the buffer adds.

    Returns:
        Priority and collect iteration (one for all, or arrays ``[count]``), and the rows.

    Raises:
        BufferArgumentError: a priority is negative, NaN or infinite, or there are more or less than rows, or a
            ``collect_iter`` is no number.
    """
    try:
        collected = _collect_iters(rows, count)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise BufferArgumentError(f"collect_iter of the pushed rows must be whole numbers: {error}") from error
    given: Any
    if isinstance(rows, list):
        given = [row.get("priority") for row in rows]
        if any(not added.isdisjoint(row) for row in rows):
            rows = [{key: value for key, value in row.items() if key not in added} for row in rows]
    elif added.isdisjoint(rows):
        return default, collected, rows
    else:
        given = rows.get("priority")
        rows = {key: value for key, value in rows.items() if key not in added}
    if isinstance(given, list):
        given = None if all(one is None for one in given) else [default if one is None else one for one in given]
    if given is None:
        return default, collected, rows
    priority = checked_priorities(given, "priority of the pushed rows")
    if len(priority) != count:
        raise BufferArgumentError(f"{count} rows were pushed with {len(priority)} priorities")
    return priority, collected, rows


def _collect_iters(rows: Rows, count: int) -> "int | np.ndarray":
    """int64 ``[count]`` (or one value for all): key ``collect_iter`` of columns or rows; of a list, the smallest."""
    column = [row.get("collect_iter") for row in rows] if isinstance(rows, list) else rows.get("collect_iter")
    if column is None:
        return UNKNOWN_ITER
    if isinstance(column, torch.Tensor):
        column = column.detach().cpu().numpy()
    if isinstance(column, np.ndarray):
        return (column if column.ndim == 1 else column.reshape(count, -1).min(axis=1)).astype(np.int64, copy=False)
    return np.array([_iter_of(value) for value in column], dtype=np.int64)


def _iter_of(value: "int | Sequence[Any] | torch.Tensor | np.ndarray | None") -> int:
    if value is None:
        return UNKNOWN_ITER
    if isinstance(value, (list, tuple)):
        return min((_iter_of(one) for one in value), default=UNKNOWN_ITER)
    return int(value.min() if isinstance(value, (torch.Tensor, np.ndarray)) else value)  # type: ignore[arg-type]
