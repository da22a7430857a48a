"""Frames that several rows share, each stored once."""

from collections.abc import Sequence

import numpy as np

from ding.data._maps import reserve
from ding.data.storage._schema import Field
from ding.data.storage.mapped import MappedFiles
from ding.data.tree_codec import PickedRows

# Bytes of frames to copy before turning from obs to next_obs.
_GATHER_BYTES = 1 << 19
# Frames are compared in pieces of about this many bytes, which stay in the cache.
_COMPARE_BYTES = 1 << 19
_FOLD = 49
_MIN_TABLE = 1 << 12
_MAX_TABLE = 1 << 21


class FramePool:
    """Reference-counted frames of one shape and dtype.

    Equal frames are found by a fingerprint and then compared byte by byte, so a frame is only shared with one that is
    equal, wherever that came from: the same push, an earlier one, another environment. The search looks at recent
    frames first and may miss one; then a frame is stored twice, and nothing else happens.

    Args:
        capacity: largest number of frames that can be referred to at a time.
        shape: of a frame.
        dtype: of a frame.
        memory: array ``[capacity, *shape]`` for the frames; ``None``: reserve memory.
    """

    def __init__(
        self, capacity: int, shape: tuple[int, ...], dtype: np.dtype, memory: "np.ndarray | None" = None
    ) -> None:
        self.capacity = capacity
        self.frames = reserve((capacity, *shape), dtype) if memory is None else memory
        self._bytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        word = next(size for size in (8, 4, 2, 1) if self._bytes % size == 0)
        self._word = np.dtype(f"u{word}")
        self._words = self.frames.reshape(capacity, -1).view(self._word)
        self._weights = np.random.Generator(np.random.PCG64(0)).integers(1, 2**63, _FOLD, dtype=np.uint64) | 1
        self._references = np.zeros(capacity, dtype=np.int32)
        self._prints = np.zeros(capacity, dtype=np.uint64)
        table = 1 << int(np.ceil(np.log2(min(max(2 * capacity, _MIN_TABLE), _MAX_TABLE))))
        self._table = np.zeros(table, dtype=np.int32)
        self._mask = np.uint64(table - 1)
        self._fresh = 0
        self._free = np.zeros(0, dtype=np.int32)

    @property
    def held(self) -> int:
        """Number of frames that are referred to."""
        return self._fresh - len(self._free)

    def end_after(self, count: int) -> int:
        """One more than the last slot that may hold a frame when ``count`` more were stored."""
        return min(self.capacity, self._fresh + max(0, count - len(self._free)))

    def add(self, sources: Sequence[np.ndarray], released: np.ndarray) -> np.ndarray:
        """Store frames, and give back the references ``released`` (int32 ``[K]``).

        Args:
            sources: arrays ``[n, *shape]`` of frames.
            released: slots of frames that are referred to once less, repeats count.

        Returns:
            int32 ``[N]``: where each frame of all sources lies; each is referred to once more.
        """
        words = [np.ascontiguousarray(source).reshape(len(source), -1).view(self._word) for source in sources]
        prints = np.concatenate([self._fingerprints(part) for part in words])
        values, first, inverse = np.unique(prints, return_index=True, return_inverse=True)
        bounds = np.cumsum([0, *map(len, words)])
        # Per frame its leader: the first one of this push that is equal.
        leader = first[inverse.reshape(-1)]
        followers = np.flatnonzero(leader != np.arange(len(leader)))
        differ = ~self._equal(words, bounds, followers, leader[followers])
        # Different frames with the same fingerprint: those go their own way.
        leader[followers[differ]] = followers[differ]
        found = self._table.take((values & self._mask).astype(np.int64))
        known = (self._prints.take(found) == values) & (self._references.take(found) > 0)
        known[known] = self._equal(words, bounds, first[known], found[known], stored=True)
        slots = np.full(len(leader), -1, dtype=np.int32)
        slots[first[known]] = found[known]
        # References first, so that what is about to be shared is not given back.
        counts = np.bincount(leader, minlength=len(leader)).astype(np.int32)
        self._references[slots[first[known]]] += counts[first[known]]
        self.release(released)
        new = np.flatnonzero((leader == np.arange(len(leader))) & (slots < 0))
        slots[new] = placed = self._allocate(len(new))
        self._references[placed] = counts[new]
        self._prints[placed] = prints[new]
        for part, begin, end in zip(words, bounds[:-1], bounds[1:]):
            inside = (new >= begin) & (new < end)
            self._words[placed[inside]] = part[new[inside] - begin]
        self._table[(prints[new] & self._mask).astype(np.int64)] = placed
        return slots[leader]

    def release(self, slots: np.ndarray) -> None:
        """Give back one reference to each of ``slots`` (int32 ``[K]``, repeats count)."""
        if not len(slots):
            return
        unique, counts = np.unique(slots, return_counts=True)
        left = self._references[unique] - counts.astype(np.int32)
        self._references[unique] = left
        self._free = np.concatenate([self._free, unique[left == 0]])

    def _allocate(self, count: int) -> np.ndarray:
        reused = min(count, len(self._free))
        split = len(self._free) - reused
        slots = self._free[split:]
        self._free = self._free[:split]
        fresh = np.arange(self._fresh, self._fresh + count - reused, dtype=np.int32)
        self._fresh += len(fresh)
        return np.concatenate([slots, fresh])

    def _fingerprints(self, words: np.ndarray) -> np.ndarray:
        """uint64 ``[n]``: a weighted sum of sums, at the speed of reading memory."""
        count, width = words.shape
        folds = width // _FOLD
        prints = np.zeros(count, dtype=np.uint64)
        if folds:
            sums = words[:, : folds * _FOLD].reshape(count, folds, _FOLD).sum(axis=1, dtype=np.uint64)
            prints += (sums * self._weights).sum(axis=1, dtype=np.uint64)
        rest = words[:, folds * _FOLD :]
        if rest.shape[1]:
            prints += (rest * self._weights[: rest.shape[1]][::-1]).sum(axis=1, dtype=np.uint64)
        # Spread over all bits: the table looks at the lowest ones.
        return prints ^ (prints >> np.uint64(29))

    def _equal(
        self, words: list[np.ndarray], bounds: np.ndarray, left: np.ndarray, right: np.ndarray, stored: bool = False
    ) -> np.ndarray:
        """bool ``[K]``: whether frames ``left`` and ``right`` (numbers over all parts, or slots) are equal."""
        equal = np.zeros(len(left), dtype=np.bool_)
        step = max(1, _COMPARE_BYTES // max(1, self._bytes))
        others = [(self._words, 0, self.capacity)] if stored else [*zip(words, bounds[:-1], bounds[1:])]
        for part, begin, end in zip(words, bounds[:-1], bounds[1:]):
            for other, other_begin, other_end in others:
                here = (left >= begin) & (left < end) & (right >= other_begin) & (right < other_end)
                pairs = np.flatnonzero(here)
                for at in range(0, len(pairs), step):
                    some = pairs[at : at + step]
                    a, b = part.take(left[some] - begin, 0), other.take(right[some] - other_begin, 0)
                    equal[some] = (a == b).all(axis=1)
        return equal


class ElidedPair:
    """A field of ``obs`` and the same field of ``next_obs``, as references to frames of one pool.

    Args:
        obs, next_obs: numbers of the two fields.
        field: the first of them.
        stack: frames per observation along its first axis; 1: the observation is one frame.
        capacity: number of rows.
        files: where the frames lie; ``None``: the pool reserves memory.
    """

    def __init__(
        self, obs: int, next_obs: int, field: Field, stack: int, capacity: int, files: MappedFiles | None
    ) -> None:
        self.obs, self.next_obs = obs, next_obs
        self.stack = stack
        self.shape = field.shape
        frame = field.shape[1:] if stack > 1 else field.shape
        frames = 2 * stack * capacity
        memory = None if files is None else files(f"{field.name}.frames", (frames, *frame), field.stored_dtype)
        self.pool = FramePool(frames, frame, field.stored_dtype, memory)
        # Per row the frames of obs, then those of next_obs; -1: no row.
        self.slots = np.full((capacity, 2 * stack), -1, dtype=np.int32)

    def write(self, positions: np.ndarray, obs: np.ndarray, next_obs: np.ndarray) -> None:
        """Store rows of both fields (``[N, *shape]``) at int64 ``[N]`` positions."""
        stack = self.stack
        frames = [leaf.reshape(-1, *self.pool.frames.shape[1:]) for leaf in (obs, next_obs)]
        old = self.slots[positions]
        placed = self.pool.add(frames, old[old >= 0]).reshape(2, len(positions), stack)
        self.slots[positions] = np.concatenate([placed[0], placed[1]], axis=1)

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
        """Return the frames that these rows refer to, in order of first use, and int32 ``[K, 2 * stack]`` indices."""
        flat = self.slots[positions].reshape(-1)
        first = np.full(self.pool.capacity, len(flat), dtype=np.int32)
        # Backwards, so that the first use of a frame is assigned last and stays.
        first[flat[::-1]] = np.arange(len(flat), dtype=np.int32)[::-1]
        used = np.flatnonzero(first < len(flat))
        used = used[np.argsort(first[used])]
        first[used] = np.arange(len(used), dtype=np.int32)
        return PickedRows(self.pool.frames, used), first[flat].reshape(-1, 2 * self.stack)
