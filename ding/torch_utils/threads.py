"""How many intra-op threads torch should use for a network.

A small layer takes a few microseconds; waking and joining a thread pool for it takes longer, and much longer on a busy
machine. Large layers use the cores. A choice of the user always wins: ``OMP_NUM_THREADS`` or ``MKL_NUM_THREADS`` in
the environment, or a call of ``torch.set_num_threads``.
"""

import logging
import os
import weakref
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

logger = logging.getLogger(__name__)

_USER_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Multiply-adds of one layer that keep one core busy for a few hundred microseconds.
_MACS_PER_THREAD = 8 * 2**20
# Below this many a second thread gains little on an idle machine and loses much on a busy one.
_MACS_WORTH_SHARING = 4 * _MACS_PER_THREAD
# A kernel of a convolution is applied at many positions of the input, which the module does not tell.
_CONV_POSITIONS = 64
_COUNT_AT_IMPORT = torch.get_num_threads()
_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


class _Fits:
    """What this process has to fit: one count per living model."""

    def __init__(self) -> None:
        self.by_model: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self.applied: int | None = None


_fits = _Fits()


def threads_for_work(macs: int, cores: int) -> int:
    """Threads for a layer of ``macs`` multiply-adds: 1 below 2**25 of them, then one per 2**23, at most ``cores``."""
    return 1 if macs < _MACS_WORTH_SHARING else max(1, min(cores, macs // _MACS_PER_THREAD))


def quota_cores(cpu_max: str) -> int | None:
    """Whole cores that a cgroup's ``cpu.max`` (``'<quota> <period>'``, microseconds) grants; ``None``: no limit."""
    quota, _, period = cpu_max.strip().partition(" ")
    if not quota.isdigit() or not period.isdigit():
        return None
    return max(1, int(quota) // int(period))


@lru_cache(maxsize=1)
def usable_cores() -> int:
    """Cores this process may use: torch's count at import, cut to the CPU affinity and the container's CPU quota.

    torch counts the cores of the machine; in a container with a quota that many threads stand in each other's way.
    """
    cores = _COUNT_AT_IMPORT
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    if _CPU_MAX.is_file():
        cores = min(cores, quota_cores(_CPU_MAX.read_text(encoding="ascii")) or cores)
    return max(1, cores)


def largest_layer_macs(model: nn.Module, batch_size: int) -> int:
    """Estimated multiply-adds of the heaviest layer of ``model`` for one batch; 0 for a model without weights.

    A layer costs its weight entries times ``batch_size``; a convolution 64 times as much.
    """
    largest = 0
    for module in model.modules():
        conv = isinstance(module, nn.modules.conv._ConvNd)
        for param in module.parameters(recurse=False):
            if param.dim() > 1:
                largest = max(largest, param.numel() * batch_size * (_CONV_POSITIONS if conv else 1))
    return largest


def fit_num_threads(model: nn.Module, batch_size: int, cores: int | None = None) -> int:
    """Return the thread count that fits the heaviest layer of ``model`` at ``batch_size``; sets nothing.

    ``cores`` defaults to :func:`usable_cores`. Raises ``ValueError`` for a batch size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    return threads_for_work(largest_layer_macs(model, batch_size), usable_cores() if cores is None else cores)


def user_chose_threads() -> bool:
    """Return whether the environment or a call of ``torch.set_num_threads`` that is not ours fixed the thread count."""
    if any(os.environ.get(name) for name in _USER_VARIABLES):
        return True
    return torch.get_num_threads() != (_COUNT_AT_IMPORT if _fits.applied is None else _fits.applied)


def apply_fitted_num_threads(model: nn.Module, batch_size: int) -> int:
    """Set torch's intra-op threads to what fits ``model`` and every other living model; returns the count in force.

    Does nothing when the user chose, and for a model that is not on the CPU. A count that was set before this module
    was imported is an upper limit.
    """
    fitted = fit_num_threads(model, batch_size)
    first = next(model.parameters(), None)
    if user_chose_threads() or first is None or first.device.type != "cpu":
        return torch.get_num_threads()
    _fits.by_model[model] = max(fitted, _fits.by_model.get(model, 1))
    count = max(_fits.by_model.values())
    if count != torch.get_num_threads():
        logger.debug("torch uses %d intra-op thread(s) from now on", count)
        torch.set_num_threads(count)
    _fits.applied = count
    return count
