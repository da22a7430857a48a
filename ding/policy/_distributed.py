"""What keeps the replicas of a model equal when several processes train together."""

from collections.abc import Iterable

import torch
import torch.distributed as dist

from ding.utils import get_world_size


def broadcast_module(module: torch.nn.Module) -> None:
    """Overwrite all parameters and buffers with those of rank 0."""
    if get_world_size() > 1:
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, 0)


def gather_rows(rows: torch.Tensor) -> torch.Tensor:
    """The rows ``[B, ...]`` of all ranks, ``[ranks * B, ...]``; each rank has as many."""
    if get_world_size() == 1:
        return rows
    parts = [torch.empty_like(rows) for _ in range(get_world_size())]
    dist.all_gather(parts, rows.contiguous())
    return torch.cat(parts)


def average_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Replace each gradient by its mean over the ranks that have one.

    A parameter that no rank has a gradient for keeps none; one that only some ranks have a gradient for gets it on all
    ranks. Two all-reduces in total (per dtype), not one per parameter.
    """
    params = [p for p in parameters if p.requires_grad]
    if get_world_size() == 1 or not params:
        return
    present = torch.tensor([float(p.grad is not None) for p in params], device=params[0].device)
    dist.all_reduce(present)
    counts = present.tolist()
    for dtype in {p.dtype: None for p in params}:
        group = [(p, count) for p, count in zip(params, counts) if p.dtype == dtype and count > 0]
        if group:
            _average_group(group)


def _average_group(group: list[tuple[torch.nn.Parameter, float]]) -> None:
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p, _ in group]
    flat = torch.cat([grad.reshape(-1) / count for grad, (_, count) in zip(grads, group)])
    dist.all_reduce(flat)
    for (p, _), piece in zip(group, flat.split([p.numel() for p, _ in group])):
        p.grad = piece.view_as(p).clone()
