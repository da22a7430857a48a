"""Integers as one-hot and binary vectors; resizing of images; layers of a fixed row norm."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn

Device: TypeAlias = "torch.device | str | int | None"


def one_hot(val: torch.Tensor, num: int, num_first: bool = False) -> torch.Tensor:
    """One-hot encode ``val``.

    Arguments:
        val: int64 of any shape, in ``[-1, num)``; -1 becomes a row of zeros.
        num: number of classes.
        num_first: put the class axis first instead of last.

    Returns:
        float32 ``[*val.shape, num]`` or ``[num, *val.shape]``.

    Raises:
        RuntimeError: a value is out of range.
    """
    if val.numel() and (int(val.min()) < -1 or int(val.max()) >= num):
        raise RuntimeError(f"one_hot: values must be in [-1, {num}), got {int(val.min())} to {int(val.max())}")
    result = torch.zeros(*val.shape, num, dtype=torch.float32, device=val.device)
    index = val.long().unsqueeze(-1)
    result.scatter_(-1, index.clamp(min=0), (index >= 0).float())
    return result.movedim(-1, 0).contiguous() if num_first else result


def binary_encode(y: torch.Tensor, max_val: int | torch.Tensor) -> torch.Tensor:
    """Binary digits of ``y``, most significant first.

    Arguments:
        y: integers ``[B]``, clamped into ``[0, max_val]``.
        max_val: positive, an int or a 0-d tensor; gives the number of digits.

    Returns:
        ``[B, digits]`` of the dtype of ``y``.
    """
    if max_val <= 0:
        raise ValueError(f"max_val must be positive, got {max_val}")
    max_val = int(max_val)
    digits = torch.arange(max_val.bit_length() - 1, -1, -1, device=y.device)
    bits = (y.clamp(0, max_val).long().unsqueeze(-1) >> digits) & 1
    return bits.to(y.dtype)


class _Upsample(nn.Module):
    """Enlarge images; a subclass names how the new pixels are computed."""

    mode: ClassVar[str]

    def __init__(self, scale_factor: float | list[float]) -> None:
        super().__init__()
        self.scale_factor = scale_factor

    def extra_repr(self) -> str:
        """The factor for ``repr``."""
        return f"scale_factor={self.scale_factor}"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, C, H, W]`` to ``[B, C, H * scale, W * scale]``."""
        return F.interpolate(x, scale_factor=self.scale_factor, mode=self.mode)


class NearestUpsample(_Upsample):
    """Enlarge images ``[B, C, H, W]`` by ``scale_factor``, repeating the nearest pixel."""

    mode = "nearest"


class BilinearUpsample(_Upsample):
    """Enlarge images ``[B, C, H, W]`` by ``scale_factor``, interpolating linearly on both axes; corners may move."""

    mode = "bilinear"


@torch.no_grad()
def _set_row_norm(layer: nn.Linear | nn.Conv2d, scale: float) -> None:
    rows = tuple(range(1, layer.weight.dim()))
    layer.weight *= scale / layer.weight.norm(dim=rows, p=2, keepdim=True)
    if layer.bias is not None:
        layer.bias.zero_()


def normed_linear(
    in_features: int,
    out_features: int,
    bias: bool = True,
    device: Device = None,
    dtype: torch.dtype | None = None,
    scale: float = 1.0,
) -> nn.Linear:
    """``nn.Linear`` whose weight rows start with L2 norm ``scale`` and whose bias starts at zero."""
    layer = nn.Linear(in_features, out_features, bias=bias, device=device, dtype=dtype)
    _set_row_norm(layer, scale)
    return layer


def normed_conv2d(
    in_channels: int,
    out_channels: int,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    bias: bool = True,
    padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
    device: Device = None,
    dtype: torch.dtype | None = None,
    scale: float = 1,
) -> nn.Conv2d:
    """``nn.Conv2d`` whose filters start with L2 norm ``scale`` and whose bias starts at zero."""
    layer = nn.Conv2d(
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
    )
    _set_row_norm(layer, scale)
    return layer
