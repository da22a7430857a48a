"""A sum tree with wide nodes: proportional draws and updates for whole arrays of leaves.

Every node sums 16 children, and the topmost level (at most 8192 sums) is searched directly. A binary tree over
131,072 leaves needs 17 dependent rounds of array operations for a draw; this one needs two. Cumulative sums are
made by torch, which is several times faster than numpy at them, over many values as over many short rows.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

_FAN_BITS = 4
_FAN = 1 << _FAN_BITS
_TOP = 8192
_ONES = np.ones(_FAN)


class SumTree:
    """Sums over ``capacity`` float64 leaves >= 0, initially all 0.

    Not thread-safe. The caller checks values and indices; what is not finite or negative breaks the sums.

    Args:
        capacity: number of leaves.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be positive, got {capacity}")
        self.capacity = capacity
        size = -(-capacity // _FAN) * _FAN
        self._levels = [np.zeros(size)]
        while size > _TOP:
            size = -(-size // (_FAN * _FAN)) * _FAN
            self._levels.append(np.zeros(size))
        # level k + 1 holds the sums of the rows of the k-th of these views
        self._rows = [level.reshape(-1, _FAN) for level in self._levels]
        # Before each sum of the top level and after the last. Torch adds up several times faster than numpy.
        self._prefix = np.zeros(len(self._levels[-1]) + 1)
        self._top = torch.from_numpy(self._levels[-1])
        self._top_ends = torch.from_numpy(self._prefix)[1:]
        self._min = np.inf
        self._min_count = 0

    @property
    def leaves(self) -> np.ndarray:
        """float64 ``[capacity]``. Do not write."""
        return self._levels[0][: self.capacity]

    @property
    def total(self) -> float:
        """Sum of all leaves."""
        return float(self._levels[-1].sum())

    def set(self, index: np.ndarray, values: Any) -> None:
        """Set the leaves of an int64 array ``[K]`` to a number or to float64 ``[K]`` (the last one wins on repeats)."""
        leaves = self._levels[0]
        old = leaves.take(index)
        leaves[index] = values
        self._note_change(old, leaves.take(index), len(index))
        for rows, above in zip(self._rows, self._levels[1:]):
            index = index >> _FAN_BITS
            above[index] = rows.take(index, 0) @ _ONES

    def set_range(self, start: int, stop: int, values: Any) -> None:
        """Set the leaves ``[start, stop)`` to a number or to float64 ``[stop - start]``."""
        leaves = self._levels[0][start:stop]
        old = leaves.copy()
        leaves[:] = values
        self._note_change(old, leaves, stop - start)
        for rows, above in zip(self._rows, self._levels[1:]):
            start, stop = start // _FAN, (stop - 1) // _FAN + 1
            np.matmul(rows[start:stop], _ONES, out=above[start:stop])

    def clear(self) -> None:
        """Set all leaves to 0."""
        for level in self._levels:
            level.fill(0.0)
        self._min, self._min_count = np.inf, 0

    def smallest(self) -> float:
        """The smallest leaf above 0, ``inf`` when there is none."""
        if self._min_count <= 0:
            leaves = self._levels[0]
            self._min = float(leaves.min(where=leaves > 0, initial=np.inf))
            self._min_count = int(np.count_nonzero(leaves == self._min))
        return self._min

    def state_dict(self) -> dict[str, Any]:
        """Copies of all sums, so that a tree that goes on from here gives the same bits."""
        return {
            "levels": [level.copy() for level in self._levels],
            "min": self._min,
            "min_count": self._min_count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a ``state_dict`` of a tree of the same capacity."""
        for level, saved in zip(self._levels, state["levels"], strict=True):
            level[:] = saved
        self._min, self._min_count = float(state["min"]), int(state["min_count"])

    def _note_change(self, old: np.ndarray, new: np.ndarray, size: int) -> None:
        """Keep the minimum while it can be kept without looking at all leaves.

        The count of leaves at the minimum is a lower bound, so a repeat in ``old`` may cost a search, never a wrong
        result.
        """
        if size == 0 or self._min_count <= 0:
            return
        self._min_count -= int(np.count_nonzero(old == self._min))
        lowest = float(np.minimum.reduce(new))
        if lowest <= 0:
            lowest = float(new.min(where=new > 0, initial=np.inf))
        if lowest < self._min:
            self._min, self._min_count = lowest, 1

    def prefix(self, stop: int) -> float:
        """Sum of the leaves before ``stop``."""
        result = 0.0
        last = len(self._levels) - 1
        for number, level in enumerate(self._levels):
            begin = 0 if number == last else stop // _FAN * _FAN
            result += float(level[begin:stop].sum())
            stop //= _FAN
        return result

    def find(self, mass: np.ndarray) -> np.ndarray:
        """The leaves in which points of the cumulative sum lie.

        Args:
            mass: float64 ``[K]``, K > 0, in ``[0, total)``; what rounding puts outside finds a leaf at the border.

        Returns:
            int64 ``[K]``: leaf i is found for a mass in ``[prefix(i), prefix(i + 1))``. A leaf of 0 is never found.

        Raises:
            ValueError: every leaf is 0.
        """
        return self._find(mass, self._add_up())[0]

    def draw(self, points: np.ndarray, parts: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`find` for float64 ``[K]`` points in ``[0, parts)``, where ``parts`` stands for the total.

        Returns:
            int64 ``[K]`` leaves and float64 ``[K]``, what stands in them.
        """
        total = self._add_up()
        return self._find(points * (total / parts), total)

    def _add_up(self) -> float:
        torch.cumsum(self._top, 0, out=self._top_ends)
        total = float(self._prefix[-1])
        if not total > 0:
            raise ValueError("every leaf of the tree is 0, there is none to find")
        return total

    def _find(self, mass: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
        # Rounding may have led to the total itself, which lies in no leaf.
        mass = np.minimum(mass, math.nextafter(total, 0.0))
        node = self._prefix[1:].searchsorted(mass, "right")
        rest = mass - self._prefix.take(node)
        for rows in self._rows[-2:0:-1]:
            ends = _ends(rows, node)
            child = (ends > rest[:, None]).argmax(1)
            before = ends.ravel().take(child + (_FAN * np.arange(len(node)) - 1))
            rest = rest - np.where(child > 0, before, 0.0)
            node = (node << _FAN_BITS) + child
        if len(self._rows) > 1:
            child = (_ends(self._rows[0], node) > rest[:, None]).argmax(1)
            node = (node << _FAN_BITS) + child
        found = self._levels[0].take(node)
        if not np.minimum.reduce(found) > 0:
            empty = found <= 0
            node[empty] = self._nearest(node[empty])
            found = self._levels[0].take(node)
        return node, found

    def _nearest(self, leaf: np.ndarray) -> np.ndarray:
        """The last leaf above 0 before each of ``leaf``, else the first one: rounding led past the end of a node."""
        held = np.flatnonzero(self._levels[0] > 0)
        return held[np.maximum(held.searchsorted(leaf) - 1, 0)]


def _ends(rows: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Float64 ``[K, 16]``: where the children of each node end within it. The last one has no end, for what rounding
    led beyond it.
    """
    ends = rows.take(node, 0)
    torch.from_numpy(ends).cumsum_(1)
    ends[:, -1] = np.inf
    return ends
