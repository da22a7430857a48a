"""Contiguous memory for large arrays of many steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ding.data.columns import Columns
from ding.data.spare_memory import SpareMemory
from ding.utils.nested import iter_leaves

# From this size on, the array of a step is copied when it arrives.
_LARGE_STEP_BYTES = 2**16
# Maximum memory kept for the next blocks.
_SPARE_BYTES = 2**30


class StepBlocks:
    """Blocks of memory to which the large arrays of steps, such as frames, are written on arrival.

    On arrival, a step is still in the processor cache, and its own memory becomes free for the next step. The memory of
    blocks is reused once their samples are gone. (With eight environments of Pong, to join fresh arrays later takes a
    tenth of the time.)

    Attributes:
        expected_rows: Number of rows of a block: the largest number so far, 0 before large arrays were joined.
            Unwritten parts of a block take no memory.
    """

    def __init__(self) -> None:
        self.expected_rows = 0
        # By column path: the block, and its number of written rows.
        self._blocks: dict[str, tuple[np.ndarray, int]] = {}
        self._memory = SpareMemory(_SPARE_BYTES)

    def placed(self, path: str, columns: Any) -> object:
        """Return a column of a step; a large array is copied to the next rows of its block."""
        if not _is_large(columns):
            return columns
        num_rows = len(columns)
        if num_rows >= self.expected_rows:
            return columns  # Never was there more than one such step to join.
        block, end = self._blocks.get(path, (columns, num_rows))  # None yet: as a full one.
        if end + num_rows > len(block) or block.dtype != columns.dtype or block.shape[1:] != columns.shape[1:]:
            block, end = self._memory.empty((self.expected_rows, *columns.shape[1:]), columns.dtype), 0
        self._blocks[path] = block, end + num_rows
        rows = block[end : end + num_rows]
        rows[...] = columns
        return rows

    def close(self, steps: Sequence[dict[str, Columns]] = (), num_rows: int = 0) -> dict[str, np.ndarray]:
        """Start new blocks with the next step; return the contents of the previous ones by path.

        Args:
            steps: Steps joined now.
            num_rows: Their total number of rows.
        """
        written = {path: block[:end] for path, (block, end) in self._blocks.items()}
        self._blocks = {}
        if num_rows > self.expected_rows and any(_is_large(leaf) for _, leaf in iter_leaves(steps[0])):
            self.expected_rows = num_rows
        return written


def _is_large(leaf: object) -> bool:
    return type(leaf) is np.ndarray and leaf.nbytes >= _LARGE_STEP_BYTES
