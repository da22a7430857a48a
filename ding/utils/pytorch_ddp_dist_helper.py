"""Data parallel training with ``torch.distributed``, on CUDA (nccl) or on the CPU (gloo).

Without an initialised process group, every function behaves as for a single process: rank 0 of 1, and reductions
without effect.
"""

from __future__ import annotations

import copy
import datetime
import functools
import logging
import math
import os
import pickle
from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ding.utils import _plain_data

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=MutableMapping[str, Any])
N = TypeVar("N", float, torch.Tensor)

_DEFAULT_TIMEOUT = datetime.timedelta(seconds=60000)
_async_handles: dict[str, Any] = {}
# Upper bound of one exchange.
_MAX_OBJECT_BYTES = 1 << 30


def _is_initialized() -> bool:
    return dist.is_available() and dist.is_initialized()


def get_rank() -> int:
    """Return the rank of this process, or 0 without a process group."""
    return dist.get_rank() if _is_initialized() else 0


def get_world_size() -> int:
    """Return the number of processes, or 1 without a process group."""
    return dist.get_world_size() if _is_initialized() else 1


def _device() -> torch.device:
    """Return the device on which the process group exchanges tensors."""
    if "nccl" in str(dist.get_backend()):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def broadcast(value: torch.Tensor, rank: int) -> None:
    """Copy the tensor of ``rank`` to ``value`` on all processes, in place."""
    if _is_initialized():
        dist.broadcast(value, src=rank)


def allreduce(x: torch.Tensor) -> None:
    """Replace ``x`` by its mean over the processes, in place."""
    if _is_initialized():
        dist.all_reduce(x)
        x.div_(get_world_size())


def allreduce_with_indicator(grad: torch.Tensor, indicator: torch.Tensor) -> None:
    """Replace ``grad`` by its sum over the processes divided by the sum of ``indicator`` (0 or 1 per process).

    Only processes with a gradient count. If none has one, the sum (zero) remains. ``indicator`` is unchanged.
    """
    count = indicator.clone()
    if _is_initialized():
        dist.all_reduce(grad)
        dist.all_reduce(count)
    grad.div_(count.clamp(min=1))


def allreduce_async(name: str, x: torch.Tensor) -> None:
    """Start averaging ``x`` over the processes, in place; ``synchronize`` waits for the result.

    Raises:
        ValueError: A reduction of this name is still pending.
    """
    if name in _async_handles:
        raise ValueError(f"the reduction {name!r} is under way; call synchronize() first")
    if _is_initialized():
        x.div_(get_world_size())
        _async_handles[name] = dist.all_reduce(x, async_op=True)


def synchronize() -> None:
    """Wait for the reductions of ``allreduce_async``, and for the CUDA device if one is in use."""
    while _async_handles:
        _, handle = _async_handles.popitem()
        handle.wait()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def reduce_data(x: N, dst: int) -> N:
    """Return the sum over the processes, defined on ``dst`` only. A tensor is modified in place and returned."""
    reduced: N = _with_tensor(x, lambda tensor: dist.reduce(tensor, dst))
    return reduced


def allreduce_data(x: N, op: str) -> N:
    """Return the sum or the mean over the processes, on all processes. A tensor is modified in place and returned.

    Args:
        x: a number (the result is one too) or a tensor.
        op: ``'sum'`` or ``'avg'``. The mean of integers is a float, that of an integer tensor is rounded down.
    """
    if op not in ("sum", "avg"):
        raise KeyError(f"op must be 'sum' or 'avg', got {op!r}")
    result: N = _with_tensor(x, dist.all_reduce)
    if op == "sum" or not _is_initialized():
        return result
    if isinstance(result, torch.Tensor):
        return result.div_(get_world_size(), rounding_mode=None if result.is_floating_point() else "floor")
    return result / get_world_size()


def _with_tensor(x: Any, exchange: Callable[[torch.Tensor], object]) -> Any:
    """Run ``exchange`` on ``x`` as a tensor on the group's device, and return the result in the type of ``x``."""
    if not isinstance(x, (int, float, torch.Tensor)):
        raise TypeError(f"only numbers and tensors can be reduced, got a {type(x).__name__}")
    if not _is_initialized():
        return x
    if isinstance(x, torch.Tensor):
        moved = x.to(_device())
        exchange(moved)
        return x if moved is x else x.copy_(moved)
    # Doubles represent the exchanged counts and durations exactly.
    tensor = torch.tensor([x], dtype=torch.int64 if isinstance(x, int) else torch.float64, device=_device())
    exchange(tensor)
    return tensor.item()


def broadcast_object_list(object_list: list[Any], src: int, device: torch.device | None = None) -> None:
    """Replace the elements of the list on every process by those of process ``src``.

    The elements are exchanged as plain data in tensors; data of another process is never unpickled without
    restrictions.

    Args:
        object_list: tensors, arrays, numbers, texts, None and dicts, lists or tuples of them.
        device: Device of the exchanged tensors; by default that of the group.

    Raises:
        TypeError: On process ``src``, an element has another type.
        RuntimeError: On the other processes, the received data is invalid, or ``src`` failed to send any.
    """
    if not _is_initialized():
        return
    where = _device() if device is None else device
    raw, error = b"", None
    if get_rank() == src:
        try:
            raw = _plain_data.dumps(list(object_list))
        except TypeError as problem:
            error = problem
    size = torch.tensor([-1 if error is not None else len(raw)], dtype=torch.int64, device=where)
    dist.broadcast(size, src=src)
    if error is not None:
        raise error
    nbytes = int(size.item())
    if not 0 <= nbytes <= _MAX_OBJECT_BYTES:
        raise RuntimeError(f"process {src} sent no objects: {nbytes} bytes, at most {_MAX_OBJECT_BYTES} are taken")
    data = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(nbytes, dtype=torch.uint8)
    data = data.to(where)
    dist.broadcast(data, src=src)
    if get_rank() != src:
        object_list[:] = _received(data.cpu().numpy().tobytes(), src, len(object_list))


def _received(raw: bytes, src: int, count: int) -> list[Any]:
    try:
        objects = _plain_data.loads(raw)
    except (pickle.UnpicklingError, EOFError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise RuntimeError(f"process {src} sent something else than plain data, which is not loaded") from error
    if not isinstance(objects, list) or len(objects) != count:
        raise RuntimeError(f"process {src} sent something else than a list of {count} objects")
    return objects


def dist_init(
    backend: str = "nccl",
    addr: str | None = None,
    port: str | int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    timeout: datetime.timedelta = _DEFAULT_TIMEOUT,
    store: dist.Store | None = None,  # type: ignore[name-defined]
) -> tuple[int, int]:
    """Join the process group.

    Args:
        backend: ``'nccl'``, which becomes ``'gloo'`` on a machine without CUDA, or another one of torch.
        addr: Address of rank 0; by default ``MASTER_ADDR``, else localhost.
        port: Port of rank 0; by default ``MASTER_PORT``, else 10314.
        rank: Rank of this process; by default ``SLURM_LOCALID`` or ``RANK``.
        world_size: Number of processes; by default ``SLURM_NTASKS`` or ``WORLD_SIZE``.
        timeout: Time-out of each operation of the group.
        store: A ``torch.distributed.Store`` for the rendezvous, which replaces ``addr`` and ``port``.

    Returns:
        ``(rank, world_size)``

    Raises:
        RuntimeError: Neither an argument nor the environment gives the rank or the world size.
    """
    if store is None:
        os.environ["MASTER_ADDR"] = addr or os.environ.get("MASTER_ADDR", "localhost")
        os.environ["MASTER_PORT"] = str(port if port is not None else os.environ.get("MASTER_PORT", 10314))
    rank = _from_env("rank", rank, "SLURM_LOCALID", "RANK")
    world_size = _from_env("world_size", world_size, "SLURM_NTASKS", "WORLD_SIZE")
    if backend == "nccl" and not torch.cuda.is_available():
        log.info("there is no CUDA device, the processes exchange data with gloo instead of nccl")
        backend = "gloo"
    dist.init_process_group(backend=backend, rank=rank, world_size=world_size, timeout=timeout, store=store)
    if torch.cuda.is_available():
        torch.cuda.set_device(rank % torch.cuda.device_count())
    return get_rank(), get_world_size()


def _from_env(what: str, value: int | None, *names: str) -> int:
    if value is not None:
        return value
    for name in names:
        if name in os.environ:
            return int(os.environ[name])
    raise RuntimeError(f"dist_init needs {what}: pass it, or set one of the environment variables {', '.join(names)}")


def dist_finalize() -> None:
    """Leave the process group, if there is one."""
    if _is_initialized():
        dist.destroy_process_group()


class DDPContext:
    """Join the process group for the block ``with DDPContext(): ...``; takes the arguments of ``dist_init``."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs

    def __enter__(self) -> DDPContext:
        dist_init(**self._kwargs)
        return self

    def __exit__(self, *exc_info: object) -> None:
        dist_finalize()


# Alias used by scripts for other communication back ends.
DistContext = DDPContext


def dist_mode(func: F) -> F:
    """Decorate a function so that it runs inside a ``DDPContext``."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> object:
        with DDPContext():
            return func(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def to_ddp_config(cfg: C) -> C:
    """Return a copy of a compiled config with the share of one process, rounded up.

    Divided by the world size: ``policy.batch_size``, ``policy.learn.batch_size``, and ``n_sample`` and ``n_episode`` of
    ``policy.collect``.
    """
    world_size = get_world_size()
    cfg = copy.deepcopy(cfg)
    policy = cfg["policy"]
    learn, collect = policy.get("learn") or {}, policy.get("collect") or {}
    for section, key in ((policy, "batch_size"), (learn, "batch_size"), (collect, "n_sample"), (collect, "n_episode")):
        if section.get(key) is not None:
            section[key] = math.ceil(section[key] / world_size)
    return cfg
