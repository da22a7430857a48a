"""cpprb's replay buffers (C++), uniform and prioritised."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from bench_rows import Filled, Rows, Task, push_op, sample_ops, to_tensors
from bench_side import Side, serve


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("cartpole", "atari"))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--priority", action="store_true")
    args = parser.parse_args()
    from cpprb import PrioritizedReplayBuffer, ReplayBuffer

    task = Task(args.task, args.rows)
    observation = {"shape": task.pool[0].obs.shape[1:], "dtype": task.pool[0].obs.dtype}
    fields: dict[str, Any] = {
        "obs": observation,
        "next_obs": observation,
        "act": {"dtype": np.int64},
        "rew": {"dtype": np.float32},
        "done": {"dtype": bool},
    }
    ready = (*fields, "weights") if args.priority else tuple(fields)
    filled = Filled(task)
    buffer = (PrioritizedReplayBuffer if args.priority else ReplayBuffer)(task.capacity, fields)

    def push(rows: Rows) -> None:
        obs, next_obs, action, reward, done = rows
        buffer.add(obs=obs, next_obs=next_obs, act=action, rew=reward, done=done)

    def sample(size: int) -> dict[str, np.ndarray]:
        batch = buffer.sample(size, 0.4) if args.priority else buffer.sample(size)
        to_tensors(*(batch[key] for key in ready))
        return batch

    def sample_and_update(size: int) -> None:
        buffer.update_priorities(sample(size)["indexes"], np.random.rand(size))

    filled.fill(push)
    ops = {
        **sample_ops(sample, sample_and_update if args.priority else None),
        "push64": push_op(task.next_pooled, push),
        "memory": filled.memory_op(),
    }
    return Side(ops, task.work())


if __name__ == "__main__":
    serve(build, "cpprb")
