"""torchrl's TensorDict replay buffers, uniform and prioritised."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from bench_rows import BLOCK, Filled, Rows, Task, push_op, sample_ops
from bench_side import Side, serve


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("cartpole", "atari"))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--priority", action="store_true")
    args = parser.parse_args()
    import torchrl
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

    torchrl._utils.logger.setLevel("ERROR")
    task = Task(args.task, args.rows)
    filled = Filled(task)
    storage = LazyTensorStorage(task.capacity)
    if args.priority:
        buffer = TensorDictPrioritizedReplayBuffer(alpha=0.6, beta=0.4, storage=storage, batch_size=256)
    else:
        buffer = TensorDictReplayBuffer(storage=storage, batch_size=256)

    def as_tensordict(rows: Rows) -> Any:
        obs, next_obs, action, reward, done = (torch.from_numpy(column) for column in rows)
        following = {"observation": next_obs, "reward": reward, "done": done}
        return TensorDict({"observation": obs, "action": action, "next": following}, [BLOCK])

    def sample_and_update(size: int) -> None:
        batch = buffer.sample(size)
        buffer.update_priority(batch["index"], torch.rand(size))

    filled.fill(lambda rows: buffer.extend(as_tensordict(rows)))
    ops = {
        **sample_ops(buffer.sample, sample_and_update if args.priority else None),
        "push64": push_op(lambda: as_tensordict(task.next_pooled()), buffer.extend),
        "memory": filled.memory_op(),
    }
    return Side(ops, task.work())


if __name__ == "__main__":
    serve(build, "torchrl", "tensordict")
