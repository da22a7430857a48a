"""Replay buffers through the DI-engine API: push, sample to training-ready tensors, prioritised sample and update.

For this project and for DI-engine. The project's own columns (``TransitionBatch``) are measured where there are any.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np
import torch
from bench_rows import BLOCK, POOL_BLOCKS, Filled, Rows, Task, push_op, sample_ops
from bench_side import Op, Side, op_of_items, serve
from ding_parts import OWN, buffer_entry, check_import
from easydict import EasyDict

# Environments of the collector: a block of rows is a segment of one trajectory of each, one behind the other.
ENVS = 8
KINDS = ("naive", "advanced", "deque")
# How observations are stored: by default, ``obs`` and ``next_obs`` in full, each observation once, each frame once.
LAYOUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "full": {"elide_next_obs": False},
    "next-obs-once": {"elide_next_obs": True},
    "frames-once": {"frame_stack": 4},
}


def make_buffer(args: argparse.Namespace, capacity: int) -> Any:
    """A buffer with its default config but for the size and the storage."""
    from tensorboardX import SummaryWriter

    from ding.worker import create_buffer
    from ding.worker.replay_buffer import get_buffer_cls

    entry = EasyDict(buffer_entry(args.buffer))
    cfg = get_buffer_cls(entry).default_config()
    cfg.update(entry)
    cfg.replay_buffer_size = capacity
    if OWN and args.buffer != "deque":
        cfg.storage.update(LAYOUTS[args.layout])
    return create_buffer(cfg, tb_logger=SummaryWriter("log"))


def tensors(rows: Rows) -> dict[str, torch.Tensor]:
    """Rows as DI-engine's collectors leave them: tensors of their own, scalars of shape ``(1,)``."""
    return {
        "obs": torch.from_numpy(rows.obs).clone(),
        "next_obs": torch.from_numpy(rows.next_obs).clone(),
        "action": torch.from_numpy(rows.action).clone().unsqueeze(1),
        "reward": torch.from_numpy(rows.reward).clone().unsqueeze(1),
    }


def as_dicts(rows: Rows) -> list[dict[str, Any]]:
    """Transition dicts. As in collected ones, ``next_obs`` of a row is the very ``obs`` tensor of the next."""
    columns = tensors(rows)
    dicts = [
        {**{key: column[i].clone() for key, column in columns.items()}, "done": bool(rows.done[i])}
        for i in range(len(rows.done))
    ]
    for before, after in itertools.pairwise(dicts):
        before["next_obs"] = after["obs"]
    return dicts


def as_batch(rows: Rows) -> Any:
    """The rows as a collector hands them over; as dicts in DI-engine, which has no columns.

    Here they go through the store in which a collector gathers the steps of its environments.
    That is the collector's work and not that of the push.
    """
    if not OWN:
        return as_dicts(rows)
    from ding.rollout import TrajectoryStore

    store, env_ids = TrajectoryStore(ENVS, rows_as_tensors=True), np.arange(ENVS)
    columns = {**tensors(rows), "done": rows.done.copy()}
    length = len(rows.done) // ENVS
    for begin in range(length):
        store.append(env_ids, {key: column[begin::length] for key, column in columns.items()})
    store.finish(env_ids)
    return store.take_finished()


def as_columns(rows: Rows) -> Any:
    """The rows as a script makes them: a ``TransitionBatch`` of separate columns."""
    from ding.data import TransitionBatch

    return TransitionBatch({**tensors(rows), "done": rows.done.copy()})


def ready(batch: Any, size: int, *more: str) -> dict[str, Any]:
    """Training-ready tensors of the fields of a transition and of those named in ``more``, as on all other sides."""
    names = (*Rows._fields, *more)
    if OWN and hasattr(batch, "columns"):
        columns = batch.columns
        found = {name: columns[name] for name in names}
        data = {name: one if torch.is_tensor(one) else torch.from_numpy(one) for name, one in found.items()}
    else:
        from ding.utils.data import default_collate

        data = default_collate([{name: row[name] for name in names} for row in batch])
    if len(data["obs"]) != size:
        raise RuntimeError(f"{len(data['obs'])} rows instead of {size}")
    return data


def operations(buffer: Any, task: Task, kind: str) -> dict[str, Op]:
    """All operations of a filled buffer."""
    single = as_dicts(task.pool[0])
    turn = [0]

    def push1() -> None:
        turn[0] = (turn[0] + 1) % BLOCK
        row = dict(single[turn[0]])
        # The deque wrapper takes lists only.
        buffer.push([row] if kind == "deque" else row, cur_collector_envstep=0)

    def push(block: Any) -> None:
        buffer.push(block, cur_collector_envstep=0)

    def sample(size: int) -> None:
        ready(buffer.sample(size, 0), size)

    def sample_and_update(size: int) -> None:
        batch = buffer.sample(size, 0)
        ready(batch, size, "IS")
        columns = batch.columns if OWN else None
        names = ("replay_unique_id", "replay_buffer_idx")
        info = {name: columns[name] if columns else [row[name] for row in batch] for name in names}
        # As the peers get them; DI-engine's buffer is made for the Python floats that its policies report.
        priorities = np.random.rand(size)
        info["priority"] = priorities if OWN else priorities.tolist()
        buffer.update(info)

    own = {"push64_columns": push_op(lambda: as_columns(task.next_pooled()), push)} if OWN else {}
    return {
        **sample_ops(sample, sample_and_update if kind == "advanced" else None),
        "push64": push_op(lambda: as_batch(task.next_pooled()), push),
        **own,
        "push64_dicts": push_op(lambda: as_dicts(task.next_pooled()), push),
        "push1": op_of_items(push1, 1, "rows"),
    }


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("cartpole", "atari"))
    parser.add_argument("--buffer", choices=KINDS, default="advanced")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--layout", choices=tuple(LAYOUTS), default="default")
    args = parser.parse_args()
    check_import()
    task = Task(args.task, args.rows)
    # Imports and the memory of passing blocks are no memory of rows.
    warm = make_buffer(args, 2 * BLOCK)
    for number in range(2 * POOL_BLOCKS):
        warm.push(as_batch(task.block(number)), cur_collector_envstep=0)
    filled = Filled(task)
    buffer = make_buffer(args, task.capacity)
    filled.fill(lambda rows: buffer.push(as_batch(rows), cur_collector_envstep=0))
    ops = {**operations(buffer, task, args.buffer), "memory": filled.memory_op()}
    return Side(ops, task.work(), getattr(buffer, "close", lambda: None))


if __name__ == "__main__":
    serve(build, "DI-engine")
