"""Frames that several rows share, each stored once."""

import contextlib
import mmap
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ding.data._maps import NORESERVE

# Frames are compared in pieces of about this many bytes, which stay in the cache.
_COMPARE_BYTES = 1 << 19
_FOLD = 49
_MIN_TABLE = 1 << 12
_MAX_TABLE = 1 << 21


def reserve(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose memory is taken page by page when it is written, even when all of it would not fit."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not sys.platform.startswith("linux") or size < mmap.PAGESIZE:
        return np.empty(shape, dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    # Numpy asks for huge pages, too: frames are read in random order. A kernel without them refuses.
    with contextlib.suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)


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

    def match(self, sources: Sequence[np.ndarray]) -> "Plan":
        """Find out which frames are stored already or equal among themselves; nothing is changed.

        Args:
            sources: arrays ``[n, *shape]`` of frames.
        """
        words = [np.ascontiguousarray(source).reshape(len(source), -1).view(self._word) for source in sources]
        prints = np.concatenate([self._fingerprints(part) for part in words])
        values, first, inverse = np.unique(prints, return_index=True, return_inverse=True)
        bounds = np.cumsum([0, *map(len, words)])
        leader = first[inverse.reshape(-1)]
        followers = np.flatnonzero(leader != np.arange(len(leader)))
        differ = ~self._equal(words, bounds, followers, leader[followers])
        # Different frames with the same fingerprint: those go their own way.
        leader[followers[differ]] = followers[differ]
        found = self._table.take((values & self._mask).astype(np.int64))
        known = (self._prints.take(found) == values) & (self._references.take(found) > 0)
        known[known] = self._equal_stored(words, bounds, first[known], found[known])
        slots = np.full(len(leader), -1, dtype=np.int32)
        slots[first[known]] = found[known]
        return Plan(words, bounds, prints, leader, slots)

    def store(self, plan: "Plan", released: np.ndarray) -> np.ndarray:
        """Store what ``match`` planned and give back the references ``released`` (int32 ``[K]``).

        Returns:
            int32 ``[N]``: where each frame of the plan lies; each is referred to once more.
        """
        leaders = np.flatnonzero(plan.leader == np.arange(len(plan.leader)))
        known = leaders[plan.slots[leaders] >= 0]
        # References first, so that what is about to be shared is not given back.
        counts = np.bincount(plan.leader, minlength=len(plan.leader))
        self._references[plan.slots[known]] += counts[known].astype(np.int32)
        self.release(released)
        new = leaders[plan.slots[leaders] < 0]
        slots = self._allocate(len(new))
        plan.slots[new] = slots
        self._references[slots] = counts[new]
        self._prints[slots] = plan.prints[new]
        for number, part in enumerate(plan.words):
            begin, end = plan.bounds[number], plan.bounds[number + 1]
            inside = (new >= begin) & (new < end)
            self._words[slots[inside]] = part[new[inside] - begin]
        self._table[(plan.prints[new] & self._mask).astype(np.int64)] = slots
        return plan.slots[plan.leader]

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

    def _equal(self, words: list[np.ndarray], bounds: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """bool ``[K]``: whether frames ``left`` and ``right`` (numbers over all parts) are equal."""
        equal = np.zeros(len(left), dtype=np.bool_)
        step = max(1, _COMPARE_BYTES // max(1, self._bytes))
        for number in range(len(words)):
            for other in range(len(words)):
                pairs = np.flatnonzero(_within(left, bounds, number) & _within(right, bounds, other))
                for begin in range(0, len(pairs), step):
                    part = pairs[begin : begin + step]
                    a = words[number].take(left[part] - bounds[number], 0)
                    b = words[other].take(right[part] - bounds[other], 0)
                    equal[part] = (a == b).all(axis=1)
        return equal

    def _equal_stored(
        self, words: list[np.ndarray], bounds: np.ndarray, left: np.ndarray, slots: np.ndarray
    ) -> np.ndarray:
        """bool ``[K]``: whether frames ``left`` are equal to those that lie at ``slots``."""
        equal = np.zeros(len(left), dtype=np.bool_)
        step = max(1, _COMPARE_BYTES // max(1, self._bytes))
        for number, part_words in enumerate(words):
            pairs = np.flatnonzero(_within(left, bounds, number))
            for begin in range(0, len(pairs), step):
                part = pairs[begin : begin + step]
                a = part_words.take(left[part] - bounds[number], 0)
                equal[part] = (a == self._words.take(slots[part], 0)).all(axis=1)
        return equal


class Plan:
    """What :meth:`FramePool.match` found: per frame its leader (an equal frame of the same push) and, per leader, the
    slot that holds it already, or -1.
    """

    __slots__ = ("bounds", "leader", "prints", "slots", "words")

    def __init__(
        self, words: list[np.ndarray], bounds: np.ndarray, prints: np.ndarray, leader: np.ndarray, slots: np.ndarray
    ) -> None:
        self.words = words
        self.bounds = bounds
        self.prints = prints
        self.leader = leader
        self.slots = slots


def _within(numbers: np.ndarray, bounds: np.ndarray, part: int) -> Any:
    return (numbers >= bounds[part]) & (numbers < bounds[part + 1])
