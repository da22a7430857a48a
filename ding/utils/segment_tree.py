"""Trees over a fixed number of values for fast sums, minima or maxima of any range.

All operations are vectorised: values are set, and prefix sums looked up, for one index or many at once. Not
thread-safe.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ding.utils.names import check_choice

_OPERATIONS: dict[str, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0.0),
    "min": (np.minimum, np.inf),
    "max": (np.maximum, -np.inf),
}


class SegmentTree:
    """A complete binary tree in one float64 array: node i has the children 2i and 2i + 1, leaf k is node capacity + k.

    Args:
        capacity: number of leaves, a power of two.
        operation: ``'sum'``, ``'min'`` or ``'max'`` (or the builtin of that name).
        neutral_element: Initial value of the leaves; by default 0, +inf or -inf.

    Raises:
        AssertionError: the capacity is not a power of two.
        KeyError: The operation is unknown.
    """

    def __init__(
        self, capacity: int, operation: str | Callable[..., Any], neutral_element: float | None = None
    ) -> None:
        if capacity < 1 or capacity & (capacity - 1):
            raise AssertionError(f"capacity must be a power of two, got {capacity}")
        name = operation if isinstance(operation, str) else getattr(operation, "__name__", str(operation))
        check_choice("operation", name, _OPERATIONS, KeyError)
        self.capacity = capacity
        self.operation = name
        self._combine, default = _OPERATIONS[name]
        self.neutral_element = default if neutral_element is None else neutral_element
        self.value = np.full(2 * capacity, self.neutral_element, dtype=np.float64)
        self._rebuild()

    def _rebuild(self) -> None:
        begin = self.capacity
        while begin > 1:
            children = self.value[begin : 2 * begin]
            begin //= 2
            self.value[begin : 2 * begin] = self._combine(children[0::2], children[1::2])

    def _nodes(self, index: npt.ArrayLike) -> np.ndarray:
        index = np.asarray(index, dtype=np.int64)
        if index.size and (index.min() < 0 or index.max() >= self.capacity):
            raise IndexError(f"index {index} is outside of [0, {self.capacity})")
        return index + self.capacity

    def __setitem__(self, index: npt.ArrayLike, value: npt.ArrayLike) -> None:
        """Set one leaf, or the leaves of an index array ``[K]``; of repeated indices, the last one wins."""
        nodes = self._nodes(index).reshape(-1)
        self.value[nodes] = value
        while nodes.size and nodes[0] > 1:
            # All nodes are on the same level; removing duplicates halves the work on every level.
            nodes = np.unique(nodes >> 1) if nodes.size > 1 else nodes >> 1
            self.value[nodes] = self._combine(self.value[2 * nodes], self.value[2 * nodes + 1])

    def __getitem__(self, index: npt.ArrayLike) -> float | np.ndarray:
        """One leaf as a float, or the leaves of an index array as float64 ``[K]``."""
        found = self.value[self._nodes(index)]
        return float(found) if np.ndim(found) == 0 else found

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """Return the operation over the leaves ``[start, end)``; negative ends count from the capacity.

        Raises:
            AssertionError: The range is empty or out of bounds.
        """
        end = self.capacity if end is None else end
        if end < 0:
            end += self.capacity
        if not 0 <= start < end <= self.capacity:
            raise AssertionError(f"need 0 <= start < end <= {self.capacity}, got start {start} and end {end}")
        result = self.neutral_element
        low, high = start + self.capacity, end + self.capacity
        while low < high:
            if low & 1:
                result = self._combine(result, self.value[low])
                low += 1
            if high & 1:
                high -= 1
                result = self._combine(result, self.value[high])
            low >>= 1
            high >>= 1
        return float(result)


class SumSegmentTree(SegmentTree):
    """A tree of sums of values >= 0 that finds the leaf at a point of the cumulative sum."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, "sum")

    def find_prefixsum_idx(self, prefixsum: npt.ArrayLike, trust_caller: bool = True) -> int | np.ndarray:
        """Return the smallest leaf whose cumulative sum (itself included) is above ``prefixsum``.

        A leaf of 0 is never returned. A ``prefixsum`` at or above the total returns the last leaf above 0.

        Args:
            prefixsum: one number, or an array ``[K]`` for an int64 array ``[K]`` of leaves.
            trust_caller: Skip the range check of ``prefixsum``.

        Raises:
            AssertionError: ``prefixsum`` is outside of [0, total + 1e-5] and ``trust_caller`` is False.
            ValueError: every leaf is 0.
        """
        mass = np.array(prefixsum, dtype=np.float64)
        total = self.value[1]
        if not trust_caller and not (np.all(mass >= 0) and np.all(mass <= total + 1e-5)):
            raise AssertionError(f"prefixsum must be in [0, {total}], got {prefixsum!r}")
        if not total > 0:
            raise ValueError("every leaf of the tree is 0, there is none to find")
        node = np.ones(mass.shape, dtype=np.int64)
        while (int(node.flat[0]) if node.size else self.capacity) < self.capacity:
            left = self.value[2 * node]
            # The right side must hold some mass: rounding may leave a mass that is slightly too large.
            right = (mass >= left) & (self.value[2 * node + 1] > 0)
            mass = np.where(right, mass - left, mass)
            node = 2 * node + right
        leaf = node - self.capacity
        return int(leaf) if leaf.ndim == 0 else leaf


class MinSegmentTree(SegmentTree):
    """A tree of minima."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, "min")
