"""The rows that the buffer benchmarks store: CartPole transitions and stacked Atari frames."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from bench_side import Op, op_of_items, rss_bytes

POOL_BLOCKS = 8
BLOCK = 64
EPISODE_BLOCKS = 8
SAMPLE_SIZES = (64, 256, 1024)
PRIORITY_BATCH = 256
# Blocks that are made before the clock runs, pushed time that is enough, and when to stop in any case.
MADE_BLOCKS = 200
PUSH_S = 0.15
PUSH_LIMIT_S = 3.0


class Rows(NamedTuple):
    """64 successive transitions: ``next_obs[i]`` is ``obs[i + 1]``, and Atari stacks share frames."""

    obs: np.ndarray
    next_obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray

    @property
    def row_bytes(self) -> int:
        """Bytes of one row without any elision."""
        return sum(column[0].nbytes for column in self)

    @property
    def obs_bytes(self) -> int:
        """Bytes of ``obs`` and ``next_obs`` of one row."""
        return 2 * self.obs[0].nbytes


class Task:
    """``cartpole``: float32 ``[4]``, 100,000 rows; ``atari``: uint8 ``[4, 84, 84]``, 20,000 rows.

    Args:
        name: of the task.
        capacity: rows of the buffer, when not the above.
    """

    def __init__(self, name: str, capacity: int | None = None) -> None:
        if name not in ("cartpole", "atari"):
            raise ValueError(f"unknown task {name!r}")
        self.atari = name == "atari"
        self.capacity = capacity or (20_000 if self.atari else 100_000)
        self._rng = np.random.default_rng(0)
        # The last four are the first four, so that each block goes on where the one before ended.
        frames = self._rng.integers(0, 255, (BLOCK, 84, 84), dtype=np.uint8) if self.atari else None
        self._frames = None if frames is None else np.concatenate([frames, frames[:4]])
        self._last_obs = np.zeros(4, np.float32)
        self.pool = [self.block(number) for number in range(POOL_BLOCKS)]
        self._next = 0

    def block(self, number: int) -> Rows:
        """The rows of one block; ask in order of the numbers. No two frames or rows of a stream are equal."""
        if self._frames is None:
            stream = self._rng.standard_normal((BLOCK + 1, 4)).astype(np.float32)
            stream[0], self._last_obs = self._last_obs, stream[-1].copy()
        else:
            frames = self._frames.copy()
            # The running number of the frame in its first pixels.
            counter = np.arange(number * BLOCK, number * BLOCK + len(frames), dtype=np.uint32)
            frames.reshape(len(frames), -1)[:, :4] = counter.view(np.uint8).reshape(-1, 4)
            stream = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
            stream = np.ascontiguousarray(np.moveaxis(stream, -1, 1))
        done = np.zeros(BLOCK, dtype=bool)
        done[-1] = number % EPISODE_BLOCKS == EPISODE_BLOCKS - 1
        action = self._rng.integers(0, 2, BLOCK)
        return Rows(stream[:BLOCK].copy(), stream[1 : BLOCK + 1].copy(), action, np.ones(BLOCK, np.float32), done)

    def next_pooled(self) -> Rows:
        """The next block of the pool."""
        self._next = (self._next + 1) % len(self.pool)
        return self.pool[self._next]

    def work(self) -> dict[str, Any]:
        """What a side declares."""
        return {"rows": self.capacity, "obs": [4, 84, 84] if self.atari else [4]}


class Filled:
    """Fills a buffer and measures the memory that its rows take. Make it before the buffer."""

    def __init__(self, task: Task) -> None:
        self._task = task
        give_back_freed_memory()
        self._before = rss_bytes()
        self._bytes_per_row = 0.0

    def fill(self, push: Callable[[Rows], None]) -> None:
        """Push new rows until the buffer is full."""
        for number in range(self._task.capacity // BLOCK + 1):
            push(self._task.block(POOL_BLOCKS + number))
        give_back_freed_memory()
        self._bytes_per_row = (rss_bytes() - self._before) / self._task.capacity

    def memory_op(self) -> Op:
        """Reports what was measured."""
        rows, taken = self._task.pool[0], self._bytes_per_row
        values = {
            "bytes_per_row": taken,
            "share_of_row": taken / rows.row_bytes,
            "share_of_obs": taken / rows.obs_bytes,
        }
        return Op(lambda: values, dict, single=True)


def give_back_freed_memory() -> None:
    """Let the allocator return what is free, so that rows do not hide in it (glibc only)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def to_tensors(*columns: np.ndarray) -> list[Any]:
    """Sampled arrays as tensors that share their memory, as a training step takes them."""
    import torch

    return [torch.from_numpy(column) for column in columns]


def push_op(make: Callable[[], Any], push: Callable[[Any], None]) -> Op:
    """Pushes blocks of 64 rows that are made before the clock runs, as a collector hands them over.

    Every block is a new object, so that a buffer that keeps references frees the rows that it replaces.
    """

    def step() -> dict[str, float]:
        pushed, spent = 0, 0.0
        limit = time.perf_counter() + PUSH_LIMIT_S
        while spent < PUSH_S and time.perf_counter() < limit:
            made = [make() for _ in range(MADE_BLOCKS)]
            start = time.perf_counter()
            for block in made:
                push(block)
            spent += time.perf_counter() - start
            pushed += BLOCK * MADE_BLOCKS
        return {"rows_per_s": pushed / spent}

    return Op(step, dict, single=True)


def sample_ops(sample: Callable[[int], Any], and_update: Callable[[int], Any] | None = None) -> dict[str, Op]:
    """Operations ``sample64``, ``sample256``, ``sample1024`` and, with ``and_update``, ``psample256``."""
    ops = {f"sample{size}": op_of_items(lambda n=size: sample(n), 1, "batches") for size in SAMPLE_SIZES}
    if and_update is not None:
        ops["psample256"] = op_of_items(lambda: and_update(PRIORITY_BATCH), 1, "batches")
    return ops
