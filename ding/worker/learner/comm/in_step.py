"""Lockstep of the ranks of a learner group: each receives the next batch when all have one.

Each process is a rank of the default group of ``torch.distributed``. The ranks train on different batches and average
their gradients, so their parameters stay equal. All ranks issue collectives in the same order; only the training thread
issues them once a task has started. ``ding.entry.parallel.learner_group`` defines the roles of a group.
"""

import datetime
import threading
from typing import Any, Protocol

import torch
import torch.distributed as dist

from ding.utils import allreduce_data, dist_init, get_rank, get_world_size

# Maximum wait for the other processes, at the start and in each step, in seconds.
DEFAULT_GROUP_TIMEOUT_S = 300.0


class GroupBroken(RuntimeError):
    """The processes are out of step; this one must end, and all must restart."""


def group_backend(cuda: bool, local_processes: int) -> str:
    """Return the backend: nccl if each process has its own GPU, else gloo, which accepts all tensors."""
    return "nccl" if cuda and torch.cuda.is_available() and torch.cuda.device_count() >= local_processes else "gloo"


def join_group(timeout_s: float = DEFAULT_GROUP_TIMEOUT_S, **options: Any) -> tuple[int, int]:
    """Join the group unless that was done before; return the rank and the world size of this process.

    Args:
        options: Further arguments of ``dist_init``, for values missing in the environment.

    Raises:
        GroupBroken: The other processes did not join in time.
        RuntimeError: The environment does not define the rank of this process.
    """
    if dist.is_available() and dist.is_initialized():
        return get_rank(), get_world_size()
    try:
        return dist_init(timeout=datetime.timedelta(seconds=timeout_s), **options)
    except dist.DistError as error:
        raise GroupBroken(f"the processes of the learner did not find each other: {error}") from error


def explain(error: BaseException, rank: int, world_size: int) -> BaseException:
    """Return ``error``, or the cause of an error raised by a collective."""
    if isinstance(error, GroupBroken):
        return error
    if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error)):
        broken = GroupBroken(
            f"rank {rank} of {world_size} lost the other processes of its learner; one of them ended or stands still: "
            f"{error}"
        )
        broken.__cause__ = error
        return broken
    return error


class Loader(Protocol):
    """Iterator over batches that ends with ``None``."""

    def __next__(self) -> Any:
        """Return the next batch."""

    def close(self) -> None:
        """Close the loader and wake blocked callers."""


class InStep:
    """Batches of one rank: each receives its next one when all have one, and all end together.

    Args:
        loader: Iterator over batches with ``close()`` that ends with ``None``.
        world_size: Number of processes.
        end_s: Seconds that this process may continue after another one was closed.
    """

    def __init__(self, loader: "Loader", world_size: int, end_s: float) -> None:
        self._loader = loader
        self._world_size = world_size
        self._end_s = end_s
        self._closed = threading.Event()

    def __iter__(self) -> "InStep":
        return self

    def __next__(self) -> Any:
        """Return the next batch; ``None`` if this process was closed.

        Raises:
            GroupBroken: Another process was closed, but not this one.
        """
        batch = next(self._loader)
        if allreduce_data(int(batch is not None), "sum") == self._world_size:
            return batch
        if batch is not None and not self._closed.wait(self._end_s):
            raise GroupBroken("another process of the learner was closed")
        return None

    def close(self) -> None:
        """Close the loader and wake blocked callers."""
        self._closed.set()
        self._loader.close()
