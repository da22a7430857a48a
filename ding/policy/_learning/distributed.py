"""What keeps the replicas of a model equal when several processes train together."""

import torch
import torch.distributed as dist

from ding.utils import get_world_size


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
