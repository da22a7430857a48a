"""What keeps the replicas of a model equal when several processes train together.

Gradients of several processes are averaged while the rest of them is computed.

The parameters are split into buckets, the last ones first, as the backward pass reaches them. Once all gradients of a
bucket are there, its sum over the processes begins, beside what is left of the backward pass. So does torch's
``DistributedDataParallel`` (Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training"),
but that wraps the forward of one module; here a loss may go through several networks, in several modes, and only the
gradients of those that the optimiser changes meet.

A bucket travels as one tensor: its gradients, and for each parameter whether this process has one. All processes begin
the buckets in the same order, whatever the order in which their gradients come.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ding.utils import get_world_size

BUCKET_BYTES = 4 * 2**20
"""About how much travels at once; a small network is one bucket, and so one message."""


class _Bucket:
    """Some parameters of one dtype and device."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.missing = len(parameters)
        self._parameters = parameters
        self._flat = torch.empty(0)
        self._work: Any = None

    def begin(self) -> None:
        """Begin the sum over the processes."""
        has = torch.tensor([p.grad is not None for p in self._parameters])
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self._parameters]
        self._flat = torch.cat([*(grad.reshape(-1) for grad in grads), has.to(grads[0])])
        self._work = dist.all_reduce(self._flat, async_op=True)

    def end(self) -> None:
        """Wait for the sum; each gradient becomes the mean over the processes that have one."""
        self._work.wait()
        counts = self._flat[-len(self._parameters) :].tolist()
        pieces = self._flat.split([*(p.numel() for p in self._parameters), len(counts)])
        for p, piece, count in zip(self._parameters, pieces, counts):
            p.grad = piece.view_as(p) / count if count > 0 else None


class _Buckets:
    def __init__(self, parameters: Iterable[torch.nn.Parameter], bucket_bytes: int) -> None:
        groups: dict[tuple[torch.dtype, torch.device], list[list[torch.nn.Parameter]]] = {}
        used: dict[int, int] = {}
        for p in reversed([p for p in parameters if p.requires_grad]):
            group = groups.setdefault((p.dtype, p.device), [[]])
            full = used.get(id(group[-1]), 0) + p.numel() * p.element_size() > bucket_bytes
            if full and group[-1]:
                group.append([])
            group[-1].append(p)
            used[id(group[-1])] = used.get(id(group[-1]), 0) + p.numel() * p.element_size()
        lists = [one for group in groups.values() for one in group]
        self._buckets = [_Bucket(one) for one in lists]
        self._of: dict[torch.Tensor, _Bucket] = {p: bucket for bucket, one in zip(self._buckets, lists) for p in one}
        self._begun = 0

    def backward(self, loss: torch.Tensor, inputs: Sequence[torch.Tensor] | None) -> None:
        """Compute the gradients; the sums of the buckets that are full begin meanwhile."""
        hooks = [p.register_post_accumulate_grad_hook(self._there) for p in self._of]
        try:
            loss.backward(inputs=inputs)
        finally:
            for hook in hooks:
                hook.remove()

    def _there(self, parameter: torch.Tensor) -> None:
        self._of[parameter].missing -= 1
        while self._begun < len(self._buckets) and self._buckets[self._begun].missing == 0:
            self._begin_next()

    def _begin_next(self) -> None:
        self._buckets[self._begun].begin()
        self._begun += 1

    def finish(self) -> None:
        """Sum up what was not full, and wait for all."""
        while self._begun < len(self._buckets):
            self._begin_next()
        for bucket in self._buckets:
            bucket.end()


def backward_in_step(
    loss: torch.Tensor,
    parameters: Iterable[torch.nn.Parameter],
    inputs: Sequence[torch.Tensor] | None = None,
    bucket_bytes: int = BUCKET_BYTES,
) -> None:
    """Compute the gradients of ``loss`` and average those of ``parameters`` as `average_gradients` does.

    Args:
        loss: 0-d.
        parameters: The same, in the same order, in all processes; without gradients so far.
        inputs: The parameters that get gradients; None: all that ``loss`` depends on.
        bucket_bytes: The same in all processes.
    """
    if get_world_size() == 1:
        loss.backward(inputs=inputs)
        return
    buckets = _Buckets(parameters, bucket_bytes)
    buckets.backward(loss, inputs)
    buckets.finish()


def average_gradients(parameters: Iterable[torch.nn.Parameter], bucket_bytes: int = BUCKET_BYTES) -> None:
    """Replace each gradient by its mean over the ranks that have one.

    A parameter that no rank has a gradient for keeps none; one that only some ranks have a gradient for gets it on all
    ranks.
    """
    if get_world_size() > 1:
        _Buckets(parameters, bucket_bytes).finish()


def broadcast_module(module: torch.nn.Module) -> None:
    """Overwrite all parameters and buffers with those of rank 0."""
    if get_world_size() > 1:
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, 0)


def of_first_rank(value: torch.Tensor) -> torch.Tensor:
    """``value`` with what it is on rank 0, in place."""
    if get_world_size() > 1:
        dist.broadcast(value, 0)
    return value


def gather_rows(rows: torch.Tensor) -> torch.Tensor:
    """The rows ``[B, ...]`` of all ranks, ``[ranks * B, ...]``; each rank has as many."""
    if get_world_size() == 1:
        return rows
    parts = [torch.empty_like(rows) for _ in range(get_world_size())]
    dist.all_gather(parts, rows.contiguous())
    return torch.cat(parts)


def mean_of_ranks(values: torch.Tensor) -> torch.Tensor:
    """Return the mean over all ranks, the same on each; ``values`` as they are in a single process."""
    if get_world_size() == 1:
        return values
    total = values.contiguous().clone()
    dist.all_reduce(total)
    return total / get_world_size()
