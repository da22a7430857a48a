"""The rows that the buffer benchmarks store: CartPole transitions and stacked Atari frames."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

POOL = 512
BLOCK = 64
SAMPLE_SIZES = (64, 256, 1024)
PRIORITY_BATCH = 256


class Rows(NamedTuple):
    """A pool of 512 successive transitions; ``next_obs[i]`` is ``obs[i + 1]``, and Atari stacks share frames."""

    obs: np.ndarray
    next_obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    capacity: int

    @property
    def raw_bytes(self) -> int:
        """Bytes of one row without any elision."""
        return sum(column[0].nbytes for column in self[:5])

    @property
    def obs_bytes(self) -> int:
        """Bytes of ``obs`` and ``next_obs`` of one row."""
        return 2 * self.obs[0].nbytes


def make_rows(task: str, capacity: int | None = None) -> Rows:
    """``cartpole``: float32 ``[4]``, 100,000 rows; ``atari``: uint8 ``[4, 84, 84]``, 20,000 rows."""
    rng = np.random.default_rng(0)
    if task == "atari":
        frames = rng.integers(0, 255, (POOL + 4, 84, 84), dtype=np.uint8)
        stream = np.stack([frames[i : i + 4] for i in range(POOL + 1)])
    elif task == "cartpole":
        stream = rng.standard_normal((POOL + 1, 4)).astype(np.float32)
    else:
        raise ValueError(f"unknown task {task!r}")
    done = np.zeros(POOL, dtype=bool)
    done[100::100] = True
    return Rows(
        obs=stream[:-1],
        next_obs=stream[1:],
        action=rng.integers(0, 2, POOL),
        reward=np.ones(POOL, dtype=np.float32),
        done=done,
        capacity=capacity or (20_000 if task == "atari" else 100_000),
    )


class Cursor:
    """Walks through the pool: single positions and blocks of 64."""

    def __init__(self) -> None:
        self._row = -1
        self._block = -BLOCK

    def row(self) -> int:
        self._row = self._row + 1 if self._row + 1 < POOL else 0
        return self._row

    def block(self) -> slice:
        self._block = self._block + BLOCK if self._block + 2 * BLOCK <= POOL else 0
        return slice(self._block, self._block + BLOCK)


def buffer_ops(parts: dict[str, Any]) -> dict[str, Any]:
    """Operations of the buffer benchmark from ``push1``, ``push64``, ``sample(n)`` and ``psample(n)``.

    Those that a buffer does not have are missing. ``fill`` is not an operation: sides fill while they are built.
    """
    from bench_side import op_of_items

    ops: dict[str, Any] = {}
    if parts.get("push1"):
        ops["push1"] = op_of_items(parts["push1"], 1, "rows")
    if parts.get("push64"):
        ops["push64"] = op_of_items(parts["push64"], BLOCK, "rows")
    if parts.get("push64_dicts"):
        ops["push64_dicts"] = op_of_items(parts["push64_dicts"], BLOCK, "rows")
    if parts.get("sample"):
        for size in SAMPLE_SIZES:
            ops[f"sample{size}"] = op_of_items(lambda n=size: parts["sample"](n), 1, "batches")
    if parts.get("psample"):
        ops["psample256"] = op_of_items(lambda: parts["psample"](PRIORITY_BATCH), 1, "batches")
    return ops
