"""Padding with which an operation over an image of N pixels per side with stride S gives ceil(N / S) pixels."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def to_2tuple(item: Any) -> tuple[Any, Any]:
    """Return ``(item, item)``; an iterable stays as it is."""
    return item if hasattr(item, "__iter__") else (item, item)


def _reach(kernel_size: int, dilation: int) -> int:
    """Pixels from the first one under a kernel to the last one."""
    return dilation * (kernel_size - 1)


def get_padding(kernel_size: int, stride: int, dilation: int = 1) -> int:
    """Return the padding per side with which an odd kernel gives ``ceil(size / stride)`` pixels."""
    return (_reach(kernel_size, dilation) + stride - 1) // 2


def get_same_padding(x: int, k: int, s: int, d: int) -> int:
    """Return the padding of both sides together with which a kernel gives ``ceil(x / s)`` of ``x`` pixels.

    Arguments:
        x: pixels.
        k: size of the kernel.
        s: stride.
        d: dilation.
    """
    last_begin = (math.ceil(x / s) - 1) * s
    covered = last_begin + _reach(k, d) + 1
    return max(covered - x, 0)


def pad_same(
    x: torch.Tensor, k: Sequence[int], s: Sequence[int], d: Sequence[int] = (1, 1), value: float = 0
) -> torch.Tensor:
    """Pad ``[B, C, H, W]`` by :func:`get_same_padding` with ``value``; of an odd number, right and below get more."""
    sides: list[int] = []
    # `F.pad` takes the last axis first.
    for pixels, kernel, stride, dilation in list(zip(x.shape[-2:], k, s, d))[::-1]:
        both = get_same_padding(pixels, kernel, stride, dilation)
        sides += [both // 2, both - both // 2]
    return F.pad(x, sides, value=value)


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


class Conv2dSame(nn.Conv2d):
    """Convolution that gives ``ceil(size / stride)`` pixels; an odd padding is larger right and below."""

    def calc_same_pad(self, i: int, k: int, s: int, d: int) -> int:
        """Return the padding of both sides together for ``i`` pixels, kernel ``k``, stride ``s`` and dilation ``d``."""
        return get_same_padding(i, k, s, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, in_channels, H, W]`` to ``[B, out_channels, ceil(H / stride), ceil(W / stride)]``."""
        padded = pad_same(x, self.kernel_size, self.stride, self.dilation)
        return F.conv2d(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)
