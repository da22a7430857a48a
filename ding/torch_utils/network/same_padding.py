"""Padding with which an operation over an image of N pixels per side with stride S gives ceil(N / S) pixels."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def to_2tuple(item: Any) -> Any:
    """Return ``(item, item)``; an iterable stays as it is."""
    return item if hasattr(item, "__iter__") else (item, item)


def get_padding(kernel_size: int, stride: int, dilation: int = 1) -> int:
    """Return the padding per side with which an odd kernel gives ``ceil(size / stride)`` pixels."""
    return (stride - 1 + dilation * (kernel_size - 1)) // 2


def get_same_padding(x: int, k: int, s: int, d: int) -> int:
    """Return the padding of both sides together with which a kernel gives ``ceil(x / s)`` of ``x`` pixels.

    Arguments:
        x: pixels.
        k: size of the kernel.
        s: stride.
        d: dilation.
    """
    return max((math.ceil(x / s) - 1) * s + (k - 1) * d + 1 - x, 0)


def pad_same(
    x: torch.Tensor, k: Sequence[int], s: Sequence[int], d: Sequence[int] = (1, 1), value: float = 0
) -> torch.Tensor:
    """Pad ``[B, C, H, W]`` by :func:`get_same_padding` with ``value``; of an odd number, right and below get more."""
    height, width = (get_same_padding(x.shape[-2 + i], k[i], s[i], d[i]) for i in range(2))
    return F.pad(x, [width // 2, width - width // 2, height // 2, height - height // 2], value=value)


def avg_pool2d_same(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> torch.Tensor:
    """Average ``[B, C, H, W]`` into ``[B, C, ceil(H / stride), ceil(W / stride)]``; zeros that are padded count.

    Arguments:
        padding: not used, as the sizes give it.
    """
    x = pad_same(x, kernel_size, stride)
    return F.avg_pool2d(x, tuple(kernel_size), tuple(stride), 0, ceil_mode, count_include_pad)


class AvgPool2dSame(nn.AvgPool2d):
    """:func:`avg_pool2d_same` as a module."""

    kernel_size: tuple[int, int]
    stride: tuple[int, int]

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        size = to_2tuple(kernel_size)
        step = size if stride is None else to_2tuple(stride)
        super().__init__(size, step, to_2tuple(padding), ceil_mode, count_include_pad)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return avg_pool2d_same(x, self.kernel_size, self.stride, (0, 0), self.ceil_mode, self.count_include_pad)
