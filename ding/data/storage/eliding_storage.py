"""Ring columns that store equal observations once."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ding.data._tree_codec import PickedRows
from ding.data.columns import SchemaError
from ding.data.storage._elided_rows import LAYOUT
from ding.data.storage._frame_pool import FramePool
from ding.data.storage._schema import OBJECTS, Field
from ding.data.storage.column_storage import Allocate, ColumnStorage, in_memory
from ding.data.storage.mapped import MappedFiles

# Bytes of frames to copy before turning from obs to next_obs.
_GATHER_BYTES = 1 << 19


class ElidedPair:
    """A field of ``obs`` and the same field of ``next_obs``, as references to frames of one pool.

    Args:
        obs, next_obs: numbers of the two fields.
        field: the first of them.
        stack: frames per observation along its first axis; 1: the observation is one frame.
        capacity: number of rows.
        allocate: gives the memory for the frames; ``None``: the pool reserves it.
    """

    def __init__(
        self, obs: int, next_obs: int, field: Field, stack: int, capacity: int, allocate: "Allocate | None"
    ) -> None:
        self.obs, self.next_obs = obs, next_obs
        self.stack = stack
        self.shape = field.shape
        frame = field.shape[1:] if stack > 1 else field.shape
        frames = 2 * stack * capacity
        memory = None if allocate is None else allocate(f"{field.name}.frames", (frames, *frame), field.stored_dtype)
        self.pool = FramePool(frames, frame, field.stored_dtype, memory)
        # Per row the frames of obs, then those of next_obs; -1: no row.
        self.slots = np.full((capacity, 2 * stack), -1, dtype=np.int32)

    def write(self, positions: np.ndarray, obs: np.ndarray, next_obs: np.ndarray) -> None:
        """Store rows of both fields (``[N, *shape]``) at int64 ``[N]`` positions."""
        stack = self.stack
        frames = [leaf.reshape(-1, *self.pool.frames.shape[1:]) for leaf in (obs, next_obs)]
        plan = self.pool.match(frames)
        old = self.slots[positions]
        placed = self.pool.store(plan, old[old >= 0])
        half = len(positions) * stack
        rows = np.empty((len(positions), 2 * stack), dtype=np.int32)
        rows[:, :stack] = placed[:half].reshape(-1, stack)
        rows[:, stack:] = placed[half:].reshape(-1, stack)
        self.slots[positions] = rows

    def read(self, positions: np.ndarray, obs: np.ndarray, next_obs: np.ndarray) -> None:
        """Copy both fields at these positions to arrays ``[K, *shape]``."""
        slots = self.slots.take(positions, 0)
        frames = self.pool.frames
        shape = frames.shape[1:]
        parts = [
            (slots[:, : self.stack].reshape(-1), obs.reshape(-1, *shape)),
            (slots[:, self.stack :].reshape(-1), next_obs.reshape(-1, *shape)),
        ]
        # Some rows of both fields at a time: the frames that they share are then still in the cache.
        step = max(self.stack, _GATHER_BYTES // max(1, frames[0].nbytes))
        for begin in range(0, len(positions) * self.stack, step):
            for part, target in parts:
                # Slots of held rows are sound, and with 'clip' numpy needs no copy of its own.
                frames.take(part[begin : begin + step], 0, target[begin : begin + step], "clip")

    def erase(self, positions: np.ndarray) -> None:
        """Give the frames of these rows back."""
        old = self.slots[positions]
        self.pool.release(old[old >= 0])
        self.slots[positions] = -1

    def compact(self, positions: np.ndarray) -> tuple[PickedRows, np.ndarray]:
        """The frames that these rows refer to, in order of first use, and int32 ``[K, 2 * stack]`` indices."""
        flat = self.slots[positions].reshape(-1)
        first = np.full(self.pool.capacity, len(flat), dtype=np.int32)
        # Backwards, so that the first use of a frame is assigned last and stays.
        first[flat[::-1]] = np.arange(len(flat), dtype=np.int32)[::-1]
        used = np.flatnonzero(first < len(flat))
        used = used[np.argsort(first[used])]
        first[used] = np.arange(len(used), dtype=np.int32)
        return PickedRows(self.pool.frames, used), first[flat].reshape(-1, 2 * self.stack)


class ElidingStorage(ColumnStorage):
    """A :class:`ColumnStorage` that keeps ``obs`` and ``next_obs`` as references to shared frames.

    A ``next_obs`` that some row has as its ``obs`` is stored once; with ``frame_stack`` every frame of the stacks is.
    Equality is found by comparing the data, so neither the order of the rows, nor the number of environments, nor the
    number of steps between ``obs`` and ``next_obs`` matters, and a frame lives as long as any row needs it.

    Args:
        capacity: number of rows.
        fields: the schema.
        pairs: numbers of the fields to elide: ``(obs, next_obs)``.
        frame_stack: frames per observation, for fields whose first axis has this size; at most 1: no stacks.
        allocate: gives the memory for an array; ``None``: in memory.
    """

    def __init__(
        self,
        capacity: int,
        fields: tuple[Field, ...],
        pairs: "list[tuple[int, int]]",
        frame_stack: int = 0,
        allocate: "Allocate | None" = None,
    ) -> None:
        self._elided = frozenset(number for pair in pairs for number in pair)
        super().__init__(capacity, fields, allocate or in_memory)
        self._pairs = [
            ElidedPair(obs, nxt, fields[obs], _stack_of(fields[obs], frame_stack), capacity, allocate)
            for obs, nxt in pairs
        ]

    def _keeps(self, number: int) -> bool:
        return number not in self._elided

    def _reserve(self, files: MappedFiles, start: int, count: int) -> None:
        super()._reserve(files, start, count)
        for pair in self._pairs:
            files.reserve(pair.pool.frames, pair.pool.end_after(2 * pair.stack * count))

    def _put(self, start: int, count: int, leaves: list[Any]) -> None:
        super()._put(start, count, leaves)
        positions = (start + np.arange(count)) % self.capacity
        for pair in self._pairs:
            pair.write(positions, leaves[pair.obs], leaves[pair.next_obs])

    def _gather_large(self, positions: np.ndarray, targets: dict[int, np.ndarray]) -> None:
        super()._gather_large(positions, targets)
        for pair in self._pairs:
            pair.read(positions, targets[pair.obs], targets[pair.next_obs])

    def compact(self, positions: np.ndarray) -> dict[str, Any]:
        """Copies of the rows at these positions with each frame once; see :mod:`ding.data.storage._elided_rows`."""
        return self._compact(positions, PickedRows.whole)

    def copied(self, positions: np.ndarray) -> Any:
        return self.compact(positions)

    def saved(self, positions: np.ndarray) -> Any:
        return self._compact(positions, lambda rows: rows)

    def _compact(self, positions: np.ndarray, give: Callable[[PickedRows], Any]) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for number, (field, leaf) in enumerate(zip(self.fields, self._pick(positions))):
            if number in self._elided:
                continue
            inner = columns
            for key in field.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[field.path[-1]] = leaf if field.kind == OBJECTS else give(leaf)
        pairs = []
        for pair in self._pairs:
            frames, slots = pair.compact(positions)
            names = {"obs": self.fields[pair.obs].to_dict(), "next_obs": self.fields[pair.next_obs].to_dict()}
            pairs.append({**names, "frames": give(frames), "slots": slots})
        order = [list(field.path) for field in self.fields]
        return {"layout": LAYOUT, "rows": len(positions), "order": order, "columns": columns, "pairs": pairs}

    def erase(self, positions: np.ndarray) -> None:
        super().erase(positions)
        for pair in self._pairs:
            pair.erase(positions)

    @property
    def num_frames(self) -> int:
        """Number of frames that are stored."""
        return sum(pair.pool.held for pair in self._pairs)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(
            pair.pool.held * pair.pool.frames[0].nbytes + pair.slots.nbytes for pair in self._pairs
        )


def _stack_of(field: Field, frame_stack: int) -> int:
    return frame_stack if frame_stack > 1 and len(field.shape) > 1 and field.shape[0] == frame_stack else 1


def elidable_pairs(fields: tuple[Field, ...], smallest: int, frame_stack: int) -> list[tuple[int, int]]:
    """Numbers of the fields of ``obs`` and ``next_obs`` that can be elided.

    Args:
        fields: the schema.
        smallest: bytes per row from which on it is worth it.
        frame_stack: frames per observation; fields of such stacks are elided whatever their size.

    Raises:
        SchemaError: ``frame_stack`` is given, and no observation has a first axis of that size.
    """
    numbers = {field.path: number for number, field in enumerate(fields)}
    pairs = []
    for number, field in enumerate(fields):
        other = numbers.get(("next_obs", *field.path[1:]))
        if field.path[0] != "obs" or other is None or field.dtype is None:
            continue
        same = (fields[other].dtype, fields[other].shape, fields[other].recast) == (
            field.dtype, field.shape, field.recast,
        )  # fmt: skip
        if same and field.row_bytes and (field.row_bytes >= smallest or _stack_of(field, frame_stack) > 1):
            pairs.append((number, other))
    if frame_stack > 1 and not any(_stack_of(fields[obs], frame_stack) > 1 for obs, _ in pairs):
        found = {field.name: list(field.shape) for field in fields if field.path[0] in ("obs", "next_obs")}
        raise SchemaError(
            f"frame_stack={frame_stack} needs an obs and a next_obs with a first axis of {frame_stack}, found {found}"
        )
    return pairs
