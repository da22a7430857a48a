"""A sum tree with wide nodes: proportional draws and updates for whole arrays of leaves.

Every node sums 16 children, and the topmost level (at most 8192 sums) is searched directly. A binary tree over
131,072 leaves needs 17 dependent rounds of array operations for a draw; this one needs two. The cumulative sum of the
topmost level is made by torch, which is several times faster than numpy at it; those within nodes are one product of
matrices.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

_FAN_BITS = 4
_FAN = 1 << _FAN_BITS
_TOP = 8192
_ONES = np.ones(_FAN)
# Column c adds up the children of a node up to child c. The last one gives more than all of them: no mass lies beyond.
_ENDS = np.triu(np.ones((_FAN, _FAN)))
_ENDS[:, -1] = 2.0


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
        depth = 0
        while capacity > _TOP * _FAN**depth:
            depth += 1
        # Leaves are added so that every node has all its children.
        top = -(-capacity // _FAN**depth)
        self._levels = [np.zeros(top * _FAN**height) for height in range(depth, -1, -1)]
        # Level k + 1 holds the sums of the rows of the k-th of these views.
        self._rows = [level.reshape(-1, _FAN) for level in self._levels[:-1]]
        # Before each sum of the top level and after the last. Torch adds up several times faster than numpy.
        self._prefix = np.zeros(len(self._levels[-1]) + 1)
        self._top = torch.from_numpy(self._levels[-1])
        self._top_ends = torch.from_numpy(self._prefix)[1:]
        self._prefix_bits = self._prefix.view(np.int64)[1:]
        self._min = np.inf
        self._min_count = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are made anew: some of the arrays are views of others."""
        return _restored, (self.capacity, self.state_dict())

    @property
    def leaves(self) -> np.ndarray:
        """float64 ``[capacity]``. Do not write."""
        return self._levels[0][: self.capacity]

    @property
    def total(self) -> float:
        """Sum of all leaves."""
        return float(self._levels[-1].sum())

    def set(self, index: np.ndarray, values: "float | np.ndarray") -> None:
        """Set the leaves of an int64 array ``[K]`` to a number or to float64 ``[K]`` (the last one wins on repeats)."""
        leaves = self._levels[0]
        old = leaves.take(index)
        leaves[index] = values
        # Of repeats only the last one is there: what was given may be smaller than anything that stands in the leaves.
        if self._may_lower(old, values):
            self._lower(leaves.take(index))
        for rows, above in zip(self._rows, self._levels[1:]):
            index = index >> _FAN_BITS
            above[index] = rows.take(index, 0) @ _ONES

    def set_range(self, start: int, stop: int, values: "float | np.ndarray") -> None:
        """Set the leaves ``[start, stop)`` to a number or to float64 ``[stop - start]``."""
        leaves = self._levels[0][start:stop]
        old = leaves.copy()
        leaves[:] = values
        if self._may_lower(old, values):
            self._lower(leaves)
        for rows, above in zip(self._rows, self._levels[1:]):
            start, stop = start // _FAN, (stop - 1) // _FAN + 1
            np.matmul(rows[start:stop], _ONES, out=above[start:stop])

    def clear(self) -> None:
        """Set all leaves to 0."""
        for level in self._levels:
            level.fill(0.0)
        self._min, self._min_count = np.inf, 0

    def smallest(self) -> float:
        """Return the smallest leaf above 0, ``inf`` when there is none."""
        if self._min_count <= 0:
            leaves = self._levels[0]
            self._min = float(leaves.min(where=leaves > 0, initial=np.inf))
            self._min_count = int(np.count_nonzero(leaves == self._min))
        return self._min

    def state_dict(self) -> dict[str, Any]:
        """Copies of all sums, so that a tree that goes on from here gives the same bits."""
        return {"levels": [level.copy() for level in self._levels], "min": self._min, "min_count": self._min_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a ``state_dict`` of a tree of the same capacity."""
        for level, saved in zip(self._levels, state["levels"], strict=True):
            level[:] = saved
        self._min, self._min_count = float(state["min"]), int(state["min_count"])
        if state.get("even"):
            # A state of an earlier version, which made the sums of equal leaves when they were first needed.
            self._min_count = 0
            for rows, above in zip(self._rows, self._levels[1:]):
                np.matmul(rows, _ONES, out=above)

    def _may_lower(self, old: np.ndarray, values: "float | np.ndarray") -> bool:
        """Return whether ``values`` in place of the leaves ``old`` may hold a smaller one than the minimum.

        The minimum is kept while it can be kept without looking at all leaves. The count of leaves at the minimum is a
        lower bound, so a repeat in ``old`` may cost a search, never a wrong result.
        """
        if self._min_count <= 0 or not len(old):
            return False
        if old[old.argmin()] <= self._min:
            self._min_count -= int(np.count_nonzero(old == self._min))
        return bool((values[values.argmin()] if isinstance(values, np.ndarray) else values) < self._min)

    def _lower(self, new: np.ndarray) -> None:
        """Take over a minimum that is among the leaves ``new``."""
        lowest = float(new.min(where=new > 0, initial=np.inf))
        if lowest < self._min:
            self._min, self._min_count = lowest, 1

    def draw(self, points: np.ndarray, parts: "int | None" = 1) -> tuple[np.ndarray, np.ndarray]:
        """Return the leaves in which points of the cumulative sum lie.

        Args:
            points: float64 ``[K]``, K > 0, in ``[0, parts)``; what rounding puts beyond finds a leaf at the border.
            parts: stands for the total; ``None``: the points are not scaled.

        Returns:
            int64 ``[K]`` leaves and float64 ``[K]``, what stands in them. Leaf i is found for points between the sum of
            the leaves before it and that sum with it; a leaf of 0 is never found.

        Raises:
            ValueError: every leaf is 0.
        """
        torch.cumsum(self._top, 0, out=self._top_ends)
        total = float(self._prefix[-1])
        if not total > 0:
            raise ValueError("every leaf of the tree is 0, there is none to find")
        # So that a point which rounding led to the total is found in the last node.
        self._prefix[-1] = np.inf
        mass = points if parts is None else points * (total / parts)
        # As bits, floats from 0 on are in their order, and integers are compared faster: there is no NaN among them.
        node = self._prefix_bits.searchsorted(mass.view(np.int64), "right")
        rest = mass - self._prefix.take(node)
        for rows in reversed(self._rows):
            # Where the children of each node end, [K, 16]. What rounding led beyond a node is in its last child.
            ends = rows.take(node, 0) @ _ENDS
            child = (ends > rest[:, None]).argmax(1)
            if rows is not self._rows[0]:
                before = ends.take(np.arange(-1, len(node) * _FAN - 1, _FAN) + child)
                rest -= np.where(child, before, 0.0)
            node = (node << _FAN_BITS) + child
        found = self._levels[0].take(node)
        # argmin is several times faster than min.
        if not found[found.argmin()] > 0:
            # Rounding led past the end of a node: to the last leaf above 0 before it, else to the first one.
            held = np.flatnonzero(self._levels[0] > 0)
            node = np.where(found > 0, node, held[np.maximum(held.searchsorted(node) - 1, 0)])
            found = self._levels[0].take(node)
        return node, found


def _restored(capacity: int, state: Mapping[str, Any]) -> SumTree:
    tree = SumTree(capacity)
    tree.load_state_dict(state)
    return tree
