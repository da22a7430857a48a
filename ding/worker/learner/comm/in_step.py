"""The ranks of a learner group, in step: each gets the next batch when all have one.

Each process has a rank in the default group of ``torch.distributed``. They get different batches and average their
gradients, so that their parameters stay equal. All ranks issue collectives in the same order, because only the training
thread issues them once a task has begun. Which roles a group consists of is in ``ding.entry.parallel.learner_group``.
"""

import datetime
import threading
from typing import Any, Protocol

import torch
import torch.distributed as dist

from ding.utils import allreduce_data, dist_init, get_rank, get_world_size

# Longest wait of one process for the others, at the beginning and in each step.
DEFAULT_GROUP_TIMEOUT_S = 300.0


class GroupBroken(RuntimeError):
    """The processes are not in step any more; this one must end, and all begin anew."""


def group_backend(cuda: bool, local_processes: int) -> str:
    """How the processes talk: by nccl when each has a GPU of its own, else by gloo, which takes all tensors."""
    return "nccl" if cuda and torch.cuda.is_available() and torch.cuda.device_count() >= local_processes else "gloo"


def join_group(timeout_s: float = DEFAULT_GROUP_TIMEOUT_S, **options: Any) -> tuple[int, int]:
    """Rank and world size of this process, after joining the group unless that was done before.

    Args:
        options: further arguments of ``dist_init``, for what is not in the environment.

    Raises:
        GroupBroken: the others did not come in time.
        RuntimeError: the environment does not say who this process is.
    """
    if dist.is_available() and dist.is_initialized():
        return get_rank(), get_world_size()
    try:
        return dist_init(timeout=datetime.timedelta(seconds=timeout_s), **options)
    except dist.DistError as error:
        raise GroupBroken(f"the processes of the learner did not find each other: {error}") from error


def explain(error: BaseException, rank: int, world_size: int) -> BaseException:
    """``error``, or what it means when it comes from the talk of the processes."""
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
    """An iterator over batches; ``None`` is its end."""

    def __next__(self) -> Any:
        """Return the next batch."""

    def close(self) -> None:
        """End; wakes who waits."""


class InStep:
    """Batches for one of the processes: it gets its next one when all have one, and they end together.

    Args:
        loader: an iterator over batches with ``close()``; ``None`` is its end.
        world_size: number of processes.
        end_s: how long this process may work on after another one was closed.
    """

    def __init__(self, loader: "Loader", world_size: int, end_s: float) -> None:
        self._loader = loader
        self._world_size = world_size
        self._end_s = end_s
        self._closed = threading.Event()

    def __iter__(self) -> "InStep":
        return self

    def __next__(self) -> Any:
        """The next batch; ``None`` when this process was closed.

        Raises:
            GroupBroken: another process was closed, this one not.
        """
        batch = next(self._loader)
        if allreduce_data(int(batch is not None), "sum") == self._world_size:
            return batch
        if batch is not None and not self._closed.wait(self._end_s):
            raise GroupBroken("another process of the learner was closed")
        return None

    def close(self) -> None:
        """End; wakes who waits."""
        self._closed.set()
        self._loader.close()
