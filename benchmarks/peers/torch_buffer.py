"""The physical limit: ``torch.index_select`` over preallocated columns, and copies into them."""

from __future__ import annotations

import argparse

import torch
from bench_rows import BLOCK, Filled, Rows, Task, push_op, sample_ops
from bench_side import Side, serve


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("cartpole", "atari"))
    parser.add_argument("--rows", type=int, default=None)
    args = parser.parse_args()
    task = Task(args.task, args.rows)
    filled, capacity, tail = Filled(task), task.capacity, [0]
    first = [torch.from_numpy(column) for column in task.pool[0]]
    columns = [torch.empty((capacity, *column.shape[1:]), dtype=column.dtype) for column in first]

    def as_tensors(rows: Rows) -> list[torch.Tensor]:
        return [torch.from_numpy(column) for column in rows]

    def push(block: list[torch.Tensor]) -> None:
        start = tail[0] if tail[0] + BLOCK <= capacity else 0
        tail[0] = start + BLOCK
        for column, source in zip(columns, block):
            column[start : start + BLOCK] = source

    def sample(size: int) -> list[torch.Tensor]:
        index = torch.randint(capacity, (size,))
        return [column.index_select(0, index) for column in columns]

    filled.fill(lambda rows: push(as_tensors(rows)))
    ops = {
        **sample_ops(sample),
        "push64": push_op(lambda: as_tensors(task.next_pooled()), push),
        "memory": filled.memory_op(),
    }
    return Side(ops, task.work())


if __name__ == "__main__":
    serve(build)
