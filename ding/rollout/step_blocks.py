"""Large arrays of many steps, in one piece from the start."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ding.data.columns import Columns
from ding.data.spare_memory import SpareMemory
from ding.utils.nested import iter_leaves

# From this size on, the array of one step is copied as it comes.
_LARGE_STEP_BYTES = 2**16
# The most memory that is kept for the next blocks.
_SPARE_BYTES = 2**30


class StepBlocks:
    """Blocks of memory to which the large arrays of steps, such as frames, are written as they come.

    A step is in the cache of the processor then, and is not when many are joined later; and its own memory, which the
    env made, is free for the next step. The memory of blocks is used again once their samples are gone. (With eight
    environments of Pong, to join fresh arrays later takes a tenth of the time.)

    Attributes:
        expected_rows: for how many rows blocks are made, 0 before large arrays were joined: the most rows so far. What
            is never written of a block takes no memory.
    """

    def __init__(self) -> None:
        self.expected_rows = 0
        # By path of the column: the block, and how many of its rows are written.
        self._blocks: dict[str, tuple[np.ndarray, int]] = {}
        self._memory = SpareMemory(_SPARE_BYTES)

    def placed(self, path: str, columns: Any) -> object:
        """Return a column of a step; a large array as the next rows of its block."""
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
        """Begin new blocks with the next step; returns by path what was written to the last ones.

        Args:
            steps: those that are joined now.
            num_rows: their rows together.
        """
        written = {path: block[:end] for path, (block, end) in self._blocks.items()}
        self._blocks = {}
        if num_rows > self.expected_rows and any(_is_large(leaf) for _, leaf in iter_leaves(steps[0])):
            self.expected_rows = num_rows
        return written


def _is_large(leaf: object) -> bool:
    return type(leaf) is np.ndarray and leaf.nbytes >= _LARGE_STEP_BYTES
