"""What a prioritised buffer knows of each slot beside its row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.data._aligned import aligned_zeros
from ding.data.sum_tree import SumTree
from ding.worker.replay_buffer._priorities import checked_priorities
from ding.worker.replay_buffer.errors import BufferArgumentError

# Another number than that of an id that is none, so that the two never match.
EMPTY = -2
# Stands for a row without ``collect_iter``.
UNKNOWN_ITER = int(np.iinfo(np.int64).min)

# Weights are kept below this, so that the sum of many huge ones stays finite.
_LARGEST_WEIGHT = 1e280

_LAYOUT = np.dtype([
    ("unique_id", np.int64), ("use_count", np.int64), ("priority", np.float64), ("collect_iter", np.int64)
])  # fmt: skip
_ARRAYS = ("unique_id", "use_count", "priority", "collect_iter")


class Slots:
    """Arrays over the slots of a ring: unique id, use count, priority, collect iteration, and the tree of weights.

    A slot is held when its unique id is not ``EMPTY``.

    Args:
        size: number of slots.
        alpha: exponent of the priorities.
        eps: smallest priority that counts; a weight of 0 would make an element unreachable.
    """

    def __init__(self, size: int, alpha: float, eps: float) -> None:
        self.size = size
        self.alpha = alpha
        self.eps = eps
        # Side by side, so that a sampled slot costs one access to memory, not four.
        self.table = aligned_zeros(size, _LAYOUT)
        self.unique_id = self.table["unique_id"]
        self.use_count = self.table["use_count"]
        self.priority = self.table["priority"]
        self.collect_iter = self.table["collect_iter"]
        self.unique_id.fill(EMPTY)
        self.collect_iter.fill(UNKNOWN_ITER)
        self.any_collect_iter = False
        self.tree = SumTree(size)

    def weights(self, priority: Any) -> Any:
        """``max(priority, eps) ** alpha``, for a float or float64 ``[N]``."""
        return np.minimum(np.maximum(priority, self.eps) ** self.alpha, _LARGEST_WEIGHT)

    def fill(self, start: int, count: int, first_id: int, priority: Any, collect_iter: Any) -> None:
        """Take new elements into the slots from ``start`` on (not past the end).

        Args:
            start: first slot.
            count: number of elements.
            first_id: unique id of the first; the others follow.
            priority: one for all, or float64 ``[count]``.
            collect_iter: one for all, or int64 ``[count]``.
        """
        stop = start + count
        self.unique_id[start:stop] = np.arange(first_id, first_id + count)
        self.use_count[start:stop] = 0
        self.priority[start:stop] = priority
        if self.any_collect_iter or collect_iter is not UNKNOWN_ITER:
            self.any_collect_iter = True
            self.collect_iter[start:stop] = collect_iter
        self.tree.set_range(start, stop, self.weights(priority))

    def fill_ring(self, start: int, count: int, first_id: int, priority: Any, collect_iter: Any) -> None:
        """:meth:`fill`, going on at the first slot after the last."""
        until = min(count, self.size - start)
        self.fill(start, until, first_id, part_of(priority, 0, until), part_of(collect_iter, 0, until))
        if until < count:
            rest = part_of(priority, until), part_of(collect_iter, until)
            self.fill(0, count - until, first_id + until, *rest)

    def are_taken(self, positions: np.ndarray, head: int, span: int) -> bool:
        """Whether these slots, int64 ``[N]``, are all that are held: in order, within ``span`` from ``head`` on."""
        taken = self.unique_id != EMPTY
        if not (0 <= head < self.size and span <= self.size) or np.count_nonzero(taken) != len(positions):
            return False
        spanned = (head + np.arange(span)) % self.size
        return np.array_equal(positions, spanned[taken[spanned]])

    def remove(self, positions: np.ndarray) -> None:
        """Empty these slots (int64 ``[N]``)."""
        self.unique_id[positions] = EMPTY
        self.use_count[positions] = 0
        self.priority[positions] = 0.0
        self.collect_iter[positions] = UNKNOWN_ITER
        self.tree.set(positions, 0.0)

    def hold(self, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Whether element ``ids[i]`` is in slot ``positions[i]``, which may be no slot at all: bool ``[N]``, N > 0."""
        # Negative numbers become huge ones.
        numbers = positions.view(np.uint64)
        if numbers.item(numbers.argmax()) < self.size:
            return self.unique_id[positions] == ids
        inside = numbers < self.size
        return (self.unique_id[np.where(inside, positions, 0)] == ids) & inside

    def set_priority(self, positions: np.ndarray, priority: np.ndarray, largest: float) -> None:
        """Change priorities of held slots.

        Args:
            positions: int64 ``[N]``.
            priority: float64 ``[N]``, at least ``eps``.
            largest: at least the largest of them.
        """
        self.priority[positions] = priority
        weights = priority**self.alpha if largest < _LARGEST_WEIGHT else self.weights(priority)
        self.tree.set(positions, weights)

    def clear(self) -> None:
        """Empty all slots."""
        self.unique_id.fill(EMPTY)
        self.use_count.fill(0)
        self.priority.fill(0.0)
        self.collect_iter.fill(UNKNOWN_ITER)
        self.tree.clear()

    def staleness(self, collected: np.ndarray, cur_iter: Any) -> np.ndarray:
        """int64 ``[N]``: train iterations since those of ``collected``; -1 where these are unknown."""
        if not self.any_collect_iter:
            unknown = np.empty(len(collected), np.int64)
            unknown.fill(-1)
            return unknown
        stale = cur_iter - collected
        stale[collected == UNKNOWN_ITER] = -1
        return stale

    def state_dict(self) -> dict[str, Any]:
        """Copies of the arrays."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        return {**arrays, "alpha": self.alpha, "tree": self.tree.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a ``state_dict``; weights are made anew when it was taken with another ``alpha``.

        Raises:
            ValueError: an array has not the size of this buffer.
        """
        for name in _ARRAYS:
            getattr(self, name)[:] = state[name]
        self.any_collect_iter = bool((self.collect_iter != UNKNOWN_ITER).any())
        if state["alpha"] == self.alpha:
            self.tree.load_state_dict(state["tree"])
        else:
            held = np.flatnonzero(self.unique_id != EMPTY)
            self.tree.set(held, self.weights(self.priority[held]))


def collect_iters(rows: "dict[str, Any] | list[Any]", count: int) -> Any:
    """int64 ``[count]`` (or one value for all): key ``collect_iter`` of columns or rows; of a list, the smallest."""
    if isinstance(rows, list):
        return np.array([_iter_of(row.get("collect_iter")) for row in rows], dtype=np.int64)
    column = rows.get("collect_iter")
    if column is None:
        return UNKNOWN_ITER
    if isinstance(column, torch.Tensor):
        column = column.detach().cpu().numpy()
    if isinstance(column, np.ndarray):
        return (column if column.ndim == 1 else column.reshape(count, -1).min(axis=1)).astype(np.int64, copy=False)
    return np.array([_iter_of(value) for value in column], dtype=np.int64)


def _iter_of(value: Any) -> int:
    if value is None:
        return UNKNOWN_ITER
    if isinstance(value, (list, tuple)):
        return min((_iter_of(one) for one in value), default=UNKNOWN_ITER)
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return int(value.min())
    return int(value)


def part_of(values: Any, start: int, stop: "int | None" = None) -> Any:
    """A slice of an array; what stands for all rows stays what it is."""
    return values[start:stop] if isinstance(values, np.ndarray) else values


def split_rows(rows: Any, count: int, default: float, added: frozenset[str]) -> tuple[Any, Any, Any]:
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
        collected = collect_iters(rows, count)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise BufferArgumentError(f"collect_iter of the pushed rows must be whole numbers: {error}") from error
    if isinstance(rows, list):
        given: Any = [row.get("priority") for row in rows]
        if any(not added.isdisjoint(row) for row in rows):
            rows = [{key: value for key, value in row.items() if key not in added} for row in rows]
    else:
        if added.isdisjoint(rows):
            return default, collected, rows
        given = rows.get("priority")
        rows = {key: value for key, value in rows.items() if key not in added}
    if isinstance(given, list):
        given = None if all(one is None for one in given) else [default if one is None else one for one in given]
    if given is None:
        return default, collected, rows
    priority, _ = checked_priorities(given, "priority of the pushed rows")
    if len(priority) != count:
        raise BufferArgumentError(f"{count} rows were pushed with {len(priority)} priorities")
    return priority, collected, rows
