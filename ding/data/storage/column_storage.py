"""Rows of one schema in preallocated ring columns, observations of which may be stored once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ding.data.storage._elided_rows import LAYOUT
from ding.data.storage._frame_pool import ElidedPair
from ding.data.storage._schema import OBJECTS, TENSOR, Field, check_paths, check_values, dig, nested
from ding.data.storage.base import RowStorage
from ding.data.storage.mapped import MappedFiles
from ding.data.transition_batch import TransitionBatch
from ding.data.tree_codec import PickedRows

# Fields of more bytes per row are read to memory in one piece, see `_targets`.
_LARGE_ROW_BYTES = 512
# Arrays in one piece of memory begin at multiples of so many bytes.
_ALIGN = 64
_REFERENCE_BYTES = 8


def in_memory(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeroed memory, which the system provides page by page as it is written."""
    return np.zeros(shape, dtype)


class ColumnStorage(RowStorage):
    """One array per field; deduplicated observations are references to shared frames.

    A batch is read with one gather per field, and written with one slice assignment per field, two where it wraps
    around.

    Args:
        capacity: number of rows.
        fields: the schema, see :func:`~ding.data.storage._schema.fields_of`.
        files: where the arrays lie; ``None``: in memory.
        pairs: numbers of the fields ``(obs, next_obs)`` whose equal observations are stored once, and frames per
            observation along its first axis (1: the observation is one frame).
    """

    columnar = True

    def __init__(
        self,
        capacity: int,
        fields: tuple[Field, ...],
        files: MappedFiles | None = None,
        pairs: "list[tuple[int, int, int]] | None" = None,
    ) -> None:
        self.capacity = capacity
        self.fields = fields
        self._files = files
        self._reserved_rows = 0
        self._pairs = [ElidedPair(obs, nxt, fields[obs], stack, capacity, files) for obs, nxt, stack in pairs or ()]
        elided = {number for pair in self._pairs for number in (pair.obs, pair.next_obs)}
        # Per field an array, a list of objects, or None for deduplicated observations.
        self._arrays: list[Any] = []
        allocate: Callable[[str, tuple[int, ...], np.dtype], np.ndarray] = files or in_memory
        for number, field in enumerate(fields):
            if field.kind == OBJECTS:
                self._arrays.append([None] * capacity)
            elif number in elided:
                self._arrays.append(None)
            else:
                self._arrays.append(allocate(field.name, (capacity, *field.shape), field.stored_dtype))
        self._large = [
            number for number, field in enumerate(fields) if number in elided or field.row_bytes > _LARGE_ROW_BYTES
        ]
        # Per field its key, whether it is a tensor, dtype and row shape; empty for rows that need a closer look.
        self._plan: list[tuple[str, bool, Any, tuple[int, ...]]] = []
        if all(len(field.path) == 1 and field.kind != OBJECTS and field.recast is None for field in fields):
            self._plan = [(field.path[0], field.kind == TENSOR, field.dtype, field.shape) for field in fields]

    # ------------------------------------------------------------------ write

    def write(self, start: int, rows: dict[str, Any], count: int) -> None:
        leaves: list[Any] = self._exact(rows, count)
        if not leaves:
            check_paths(self.fields, rows)
            leaves = [field.check(dig(rows, field.path), count) for field in self.fields]
        if self._files is not None:
            self._reserve(self._files, start, count)
        stop = start + count
        until = min(stop, self.capacity) - start
        for array, leaf in zip(self._arrays, leaves):
            if array is None:
                continue
            if stop <= self.capacity:
                array[start:stop] = leaf
            else:
                array[start:] = leaf[:until]
                array[: count - until] = leaf[until:]
        for pair in self._pairs:
            pair.write((start + np.arange(count)) % self.capacity, leaves[pair.obs], leaves[pair.next_obs])

    def _exact(self, rows: dict[str, Any], count: int) -> list[np.ndarray]:
        """Return the arrays of rows that have the very types that are stored; empty for others, which may fit all the
        same.
        """
        if len(rows) != len(self._plan):
            return []
        arrays = []
        try:
            for key, tensor, dtype, shape in self._plan:
                leaf = rows[key]
                kind: type = type(leaf)
                if kind is not (torch.Tensor if tensor else np.ndarray):
                    return []
                array: np.ndarray = leaf.numpy() if tensor else leaf
                if array.dtype != dtype or array.shape != (count, *shape):
                    return []
                arrays.append(array)
        except (KeyError, RuntimeError, TypeError):
            # A missing field, or a tensor that needs a gradient, is on a device or has no form as an array.
            return []
        return arrays

    def check(self, columns: dict[str, Any], count: int) -> None:
        check_values(self.fields, columns, count)

    def _reserve(self, files: MappedFiles, start: int, count: int) -> None:
        """Have space on the disk for what is about to be written, or raise :class:`OSError`."""
        rows = min(start + count, self.capacity)
        if rows > self._reserved_rows:
            arrays = [array for array in self._arrays if isinstance(array, np.ndarray)]
            self._reserved_rows = min((files.reserve(array, rows) for array in arrays), default=rows)
        for pair in self._pairs:
            files.reserve(pair.pool.frames, pair.pool.end_after(2 * pair.stack * count))

    # ------------------------------------------------------------------ read

    def read(self, positions: np.ndarray) -> TransitionBatch:
        if self._plan and not self._large:
            taken = zip(self._plan, [array.take(positions, 0) for array in self._arrays])
            columns = {key: torch.from_numpy(leaf) if tensor else leaf for (key, tensor, _, _), leaf in taken}
            return TransitionBatch.unchecked(columns, len(positions))
        targets = self._targets(positions) if self._large else {}
        leaves: list[Any] = []
        for number, (field, array) in enumerate(zip(self.fields, self._arrays)):
            if field.kind == OBJECTS:
                leaves.append([array[position] for position in positions.tolist()])
                continue
            rows = targets[number] if number in targets else array.take(positions, 0)
            leaves.append(torch.from_numpy(rows) if field.kind == TENSOR else rows)
            if field.recast is not None:
                leaves[-1] = leaves[-1].view(field.recast)
        return TransitionBatch.unchecked(nested(zip(self.fields, leaves)), len(positions))

    def _targets(self, positions: np.ndarray) -> dict[int, np.ndarray]:
        """Return the rows of each large field, by number of the field: all of them in one piece of memory.

        The allocator takes a piece of some megabytes, when it is freed, as a sign to keep such pieces for the next
        request. Of several it gives some back to the system, and taking those anew, page by page, costs more than
        the copy.
        """
        count = len(positions)
        sizes = [-(-count * self.fields[i].row_bytes // _ALIGN) * _ALIGN for i in self._large]
        block = np.empty(sum(sizes), np.uint8)
        targets, begin = {}, 0
        for i, size in zip(self._large, sizes):
            field, array = self.fields[i], self._arrays[i]
            part = block[begin : begin + count * field.row_bytes]
            targets[i] = part.view(field.stored_dtype).reshape(count, *field.shape)
            begin += size
            if array is not None:
                # Positions are known to be held; with 'clip' numpy needs no copy of its own.
                array.take(positions, 0, targets[i], "clip")
        for pair in self._pairs:
            pair.read(positions, targets[pair.obs], targets[pair.next_obs])
        return targets

    def copied(self, positions: np.ndarray) -> dict[str, Any]:
        return self._compact(positions, PickedRows.whole) if self._pairs else self.read(positions).columns

    def saved(self, positions: np.ndarray) -> TransitionBatch | dict[str, Any]:
        if self._pairs:
            return self._compact(positions, lambda rows: rows)
        return TransitionBatch.unchecked(nested(self._picked(positions, lambda rows: rows)), len(positions))

    def _picked(self, positions: np.ndarray, give: Callable[[PickedRows], Any]) -> "list[tuple[Field, Any]]":
        """Return the fields that have memory here, each with its rows, to be read from it later."""
        picked: list[tuple[Field, Any]] = []
        for field, array in zip(self.fields, self._arrays):
            if field.kind == OBJECTS:
                picked.append((field, [array[position] for position in positions.tolist()]))
            elif array is not None:
                picked.append((field, give(PickedRows(array, positions, field.kind == TENSOR, field.recast))))
        return picked

    def _compact(self, positions: np.ndarray, give: Callable[[PickedRows], Any]) -> dict[str, Any]:
        """Return the rows at these positions with each frame once; see :mod:`ding.data.storage._elided_rows`."""
        pairs = []
        for pair in self._pairs:
            frames, slots = pair.compact(positions)
            names = {"obs": self.fields[pair.obs].to_dict(), "next_obs": self.fields[pair.next_obs].to_dict()}
            pairs.append({**names, "frames": give(frames), "slots": slots})
        order = [list(field.path) for field in self.fields]
        columns = nested(self._picked(positions, give))
        return {"layout": LAYOUT, "rows": len(positions), "order": order, "columns": columns, "pairs": pairs}

    def erase(self, positions: np.ndarray) -> None:
        for field, array in zip(self.fields, self._arrays):
            if field.kind == OBJECTS:
                for position in positions.tolist():
                    array[position] = None
        for pair in self._pairs:
            pair.erase(positions)

    @property
    def num_frames(self) -> int:
        """Number of frames that are stored once."""
        return sum(pair.pool.held for pair in self._pairs)

    @property
    def nbytes(self) -> int:
        kept = [field for field, array in zip(self.fields, self._arrays) if array is not None]
        own = self.capacity * sum(_REFERENCE_BYTES if field.kind == OBJECTS else field.row_bytes for field in kept)
        number: int = own + sum(pair.pool.held * pair.pool.frames[0].nbytes + pair.slots.nbytes for pair in self._pairs)
        return number

    def close(self) -> None:
        if self._files is not None:
            self._files.close()
