"""Rows of a file or a state, which are looked at and pushed a part at a time."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ding.data.columns import Leaf
from ding.utils.nested import iter_leaves, map_leaves
from ding.utils.rows import take

# Bytes of rows in full size that are in memory at a time.
CHUNK_BYTES = 1 << 24
_REFERENCE_BYTES = 8


class SavedRows:
    """Rows as columns, which may lie in a mapped file.

    Args:
        columns: nested columns with ``count`` rows each.
        count: number of rows.
        lengths: int64 ``[S]`` lengths of the segments of which the rows are the concatenation, ``None``: one segment.
        mapped: the arrays lie in a file: parts are copies, so that nothing that is pushed refers to the file.
    """

    def __init__(
        self, columns: dict[str, Any], count: int, lengths: "np.ndarray | None" = None, mapped: bool = False
    ) -> None:
        self.columns = columns
        self.count = count
        self.lengths = lengths
        self._mapped = mapped

    def expand(self, begin: int, end: int) -> dict[str, Any]:
        """Return the rows ``begin`` to ``end`` as nested columns in full size."""
        return self._part(begin, end)

    def _part(self, begin: int, end: int) -> dict[str, Any]:
        columns: dict[str, Any] = take(self.columns, slice(begin, end))
        if self._mapped:
            columns = map_leaves(_own, columns)
        return columns

    def chunks(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Bounds of parts of ``begin`` to ``end`` that are small in full size."""
        step = max(1, CHUNK_BYTES // max(1, self._row_bytes()))
        for at in range(begin, end, step):
            yield at, min(at + step, end)

    def _row_bytes(self) -> int:
        """Bytes of one row in full size; objects count as their references."""
        leaves = [leaf for _, leaf in iter_leaves(self.columns)]
        sizes = [_REFERENCE_BYTES * len(leaf) if isinstance(leaf, list) else leaf.nbytes for leaf in leaves]
        return sum(sizes) // max(1, self.count)


def _own(leaf: Leaf) -> np.ndarray | torch.Tensor | list[Any]:
    """Return a copy, which is also aligned where the file is not."""
    if isinstance(leaf, torch.Tensor):
        return leaf.clone()
    return leaf.copy() if isinstance(leaf, np.ndarray) else copy.deepcopy(leaf)
