"""tianshou's replay buffers, uniform and prioritised."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from bench_rows import BLOCK, Filled, Rows, Task, push_op, sample_ops, to_tensors
from bench_side import Side, serve


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("cartpole", "atari"))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--priority", action="store_true")
    parser.add_argument("--last-frame", action="store_true", help="save_only_last_obs, and no obs_next")
    args = parser.parse_args()
    from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer

    task = Task(args.task, args.rows)
    kwargs = {"ignore_obs_next": True, "save_only_last_obs": True, "stack_num": 4} if args.last_frame else {}
    filled = Filled(task)
    if args.priority:
        buffer = PrioritizedReplayBuffer(task.capacity, alpha=0.6, beta=0.4, **kwargs)
    else:
        buffer = ReplayBuffer(task.capacity, **kwargs)

    def batch_of(rows: Rows, where: Any, truncated: Any, info: Any) -> Batch:
        return Batch(
            obs=rows.obs[where],
            act=rows.action[where],
            rew=rows.reward[where],
            terminated=rows.done[where],
            truncated=truncated,
            obs_next=rows.next_obs[where],
            info=info,
        )

    def push_one_by_one(rows: Rows) -> None:
        for i in range(BLOCK):
            buffer.add(batch_of(rows, i, False, {}))

    def sample(size: int) -> Any:
        batch, index = buffer.sample(size)
        weights = (batch.weight,) if args.priority else ()
        to_tensors(batch.obs, batch.obs_next, batch.act, batch.rew, batch.terminated, *weights)
        return index

    def sample_and_update(size: int) -> None:
        buffer.update_weight(sample(size), np.random.rand(size))

    filled.fill(push_one_by_one)
    # A flat buffer samples fastest, one of 64 parts takes 64 rows at once: each operation gets what suits it.
    many = VectorReplayBuffer(task.capacity, BLOCK, **kwargs)
    ids, infos, never = np.arange(BLOCK), np.array([{}] * BLOCK), np.zeros(BLOCK, bool)

    def push(batch: Batch) -> None:
        many.add(batch, buffer_ids=ids)

    ops = {
        **sample_ops(sample, sample_and_update if args.priority else None),
        "push64": push_op(lambda: batch_of(task.next_pooled(), slice(None), never, infos), push),
        "memory": filled.memory_op(),
    }
    return Side(ops, task.work())


if __name__ == "__main__":
    serve(build, "tianshou")
