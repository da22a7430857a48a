"""rlox's replay buffers (Rust, float32 vectors only), uniform and prioritised."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from bench_rows import BLOCK, Filled, Rows, Task, push_op, sample_ops, to_tensors
from bench_side import Side, serve


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("cartpole",))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--priority", action="store_true")
    args = parser.parse_args()
    import rlox

    task = Task(args.task, args.rows)
    filled, calls = Filled(task), [0]
    if args.priority:
        buffer = rlox.PrioritizedReplayBuffer(task.capacity, 4, 1, 0.6, 0.4)
    else:
        buffer = rlox.ReplayBuffer(task.capacity, 4, 1)
    ready = ("obs", "next_obs", "actions", "rewards", "terminated", *(("weights",) if args.priority else ()))
    never = np.zeros(BLOCK, np.uint8)

    def as_floats(rows: Rows) -> tuple[np.ndarray, ...]:
        action = rows.action.astype(np.float32)
        return rows.obs, rows.next_obs, action, rows.reward, rows.done.astype(np.uint8)

    def push_batch(block: tuple[np.ndarray, ...]) -> None:
        obs, next_obs, action, reward, done = block
        buffer.push_batch(obs.reshape(-1), next_obs.reshape(-1), action, reward, done, never)

    def push_one_by_one(block: tuple[np.ndarray, ...]) -> None:
        # The prioritised buffer has no push of many rows.
        obs, next_obs, action, reward, done = block
        for i in range(BLOCK):
            buffer.push(obs[i], action[i : i + 1], float(reward[i]), bool(done[i]), False, next_obs[i])

    def sample(size: int) -> dict[str, Any]:
        calls[0] += 1
        batch = buffer.sample(size, calls[0])
        to_tensors(*(batch[key] for key in ready))
        return batch

    def sample_and_update(size: int) -> None:
        buffer.update_priorities(sample(size)["indices"], np.random.rand(size))

    push = push_one_by_one if args.priority else push_batch
    filled.fill(lambda rows: push(as_floats(rows)))
    ops = {
        **sample_ops(sample, sample_and_update if args.priority else None),
        "push64": push_op(lambda: as_floats(task.next_pooled()), push),
        "memory": filled.memory_op(),
    }
    return Side(ops, task.work())


if __name__ == "__main__":
    serve(build, "rlox")
