"""Placement of networks by ``policy.cuda``."""

import functools
import logging

import torch

from ding.utils.errors import UserMistake

logger = logging.getLogger(__name__)


class DeviceError(RuntimeError, UserMistake):
    """``policy.cuda`` has an unknown value."""


MISSING_GPU = "policy.cuda=True, but torch finds no CUDA device here"


def enable_tf32() -> None:
    """Let CUDA multiply float32 matrices in TF32: faster, with 10 bits of mantissa."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def use_cuda(setting: bool | str) -> bool:
    """Return whether the GPU is used: with True and ``'auto'`` where there is one; True without a GPU logs a warning
    once.

    Raises:
        DeviceError: The setting is unknown.
    """
    present = torch.cuda.is_available()
    if setting == "auto":
        return present
    if not isinstance(setting, (bool, int)):
        raise DeviceError(f"policy.cuda must be True, False or 'auto', found {setting!r}")
    if setting and not present:
        warn_of_missing_gpu()
    return bool(setting) and present


@functools.cache
def warn_of_missing_gpu() -> None:
    """Log once per process that the CPU is used instead of the GPU."""
    logger.warning("%s; the CPU is used ('auto' says so without a warning)", MISSING_GPU)


def place_module(module: torch.nn.Module, setting: bool | str, rank: int = 0) -> str:
    """Move ``module`` to the device set by ``policy.cuda``, such as the GPU of this rank; return the device.

    Raises:
        DeviceError: see :func:`use_cuda`.
    """
    if not use_cuda(setting):
        return "cpu"
    index = rank % torch.cuda.device_count()
    torch.cuda.set_device(index)
    module.cuda()
    return f"cuda:{index}"


def send(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a host ``tensor`` to ``device`` without waiting for pending work of a GPU."""
    if device.type != "cuda":
        return tensor.to(device)
    # Memory that may be paged out is copied while the host waits; torch keeps the pinned copy until it was read.
    return tensor.pin_memory().to(device, non_blocking=True)
