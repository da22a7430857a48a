"""stable-baselines3's ReplayBuffer."""

from __future__ import annotations

import argparse

import numpy as np
from bench_rows import BLOCK, Filled, Rows, Task, push_op, sample_ops
from bench_side import Side, serve


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("cartpole", "atari"))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--without-next-obs", action="store_true", help="optimize_memory_usage")
    args = parser.parse_args()
    import gymnasium
    from stable_baselines3.common.buffers import ReplayBuffer

    task = Task(args.task, args.rows)
    box = gymnasium.spaces.Box
    obs_space = box(0, 255, (4, 84, 84), np.uint8) if task.atari else box(-10, 10, (4,))
    infos = [{} for _ in range(BLOCK)]

    def make(envs: int) -> ReplayBuffer:
        return ReplayBuffer(
            task.capacity,
            obs_space,
            gymnasium.spaces.Discrete(2),
            device="cpu",
            n_envs=envs,
            optimize_memory_usage=args.without_next_obs,
            handle_timeout_termination=not args.without_next_obs,
        )

    # One env samples fastest, 64 envs push fastest: each operation gets the buffer that suits it.
    filled = Filled(task)
    one = make(1)

    def push_one_by_one(rows: Rows) -> None:
        for i in range(BLOCK):
            one.add(*(column[i : i + 1] for column in rows), infos[:1])

    filled.fill(push_one_by_one)
    many = make(BLOCK)
    ops = {
        **sample_ops(one.sample),
        "push64": push_op(task.next_pooled, lambda rows: many.add(*rows, infos)),
        "memory": filled.memory_op(),
    }
    return Side(ops, task.work())


if __name__ == "__main__":
    serve(build, "stable-baselines3")
