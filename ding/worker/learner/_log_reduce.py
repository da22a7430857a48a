"""The hook that averages log values over the ranks of a distributed run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ding.worker.learner._hooks import LearnerHook

_KEEP_PREFIX = "noreduce_"


class LogReduceHook(LearnerHook):
    """Replace numbers, tensors, lists and nested dicts of the log buffer by their mean over all ranks.

    All values travel together in one reduction, on the device of the process group (so gloo on CPUs works). Entries
    whose key starts with ``noreduce_`` stay as they are. All ranks must log the same keys and shapes.

    ``ext_args``: none.

    Raises:
        TypeError: a value of another type (when called).
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def __call__(self, engine: Any) -> None:
        pieces: list[torch.Tensor] = []
        for name, buffer in engine.log_buffer.items():
            _gather(buffer, name, pieces)
        if not pieces:
            return
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        flat = torch.cat([piece.to(device) for piece in pieces])
        dist.all_reduce(flat)
        means = (flat / dist.get_world_size()).cpu()
        offset = 0
        for buffer in engine.log_buffer.values():
            offset = _scatter(buffer, means, offset)


def _kept(key: Any) -> bool:
    return isinstance(key, str) and key.startswith(_KEEP_PREFIX)


def _gather(values: Mapping[str, Any], path: str, pieces: list[torch.Tensor]) -> None:
    """Append each value that is to be reduced as a flat float64 tensor."""
    for key, value in values.items():
        where = f"{path}.{key}"
        if _kept(key):
            continue
        if isinstance(value, Mapping):
            _gather(value, where, pieces)
        elif isinstance(value, (bool, str)) or not isinstance(
            value, (int, float, list, tuple, torch.Tensor, np.ndarray, np.generic)
        ):
            raise TypeError(f"cannot average {where!r} over the ranks: it is a {type(value).__name__}")
        else:
            pieces.append(torch.as_tensor(value, dtype=torch.float64).detach().reshape(-1))


def _scatter(values: Any, means: torch.Tensor, offset: int) -> int:
    """Write the means back in the order of :func:`_gather`; returns the next offset."""
    for key, value in list(values.items()):
        if _kept(key):
            continue
        if isinstance(value, Mapping):
            offset = _scatter(value, means, offset)
            continue
        shape = torch.as_tensor(value).shape
        count = shape.numel()
        mean = means[offset : offset + count].reshape(shape)
        values[key] = mean.tolist() if isinstance(value, (int, float, list, tuple, np.generic)) else mean
        offset += count
    return offset
