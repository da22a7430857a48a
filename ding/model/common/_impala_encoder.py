"""The image encoder of IMPALA (arXiv:1802.01561)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common._shapes import as_shape
from ding.torch_utils.network.nn_module import normed_conv2d, normed_linear


class IMPALACnnResidualBlock(nn.Module):
    """``x + conv1(relu(conv0(relu(x))))`` with 3x3 convolutions.

    Arguments:
        scale: the block starts with filters of norm ``sqrt(scale)`` in both convolutions.
    """

    def __init__(self, in_channnel: int, scale: float = 1, batch_norm: bool = False) -> None:
        super().__init__()
        self.in_channnel = in_channnel
        self.batch_norm = batch_norm
        norm = math.sqrt(scale)
        self.conv0 = normed_conv2d(in_channnel, in_channnel, 3, padding=1, scale=norm)
        self.conv1 = normed_conv2d(in_channnel, in_channnel, 3, padding=1, scale=norm)
        if batch_norm:
            self.bn0 = nn.BatchNorm2d(in_channnel)
            self.bn1 = nn.BatchNorm2d(in_channnel)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, C, H, W]`` in and out."""
        y = self.bn0(x) if self.batch_norm else x
        y = self.conv0(torch.relu(y))
        if self.batch_norm:
            y = self.bn1(y)
        return x + self.conv1(torch.relu(y))


class IMPALACnnDownStack(nn.Module):
    """A convolution, max pooling to half the size unless ``pool`` is False, and ``nblock`` residual blocks.

    State: ``firstconv``, ``blocks.j``.

    Arguments:
        scale: of the whole stack; each block gets ``scale / sqrt(nblock)``.
        kwargs: of the blocks (``batch_norm``).
    """

    def __init__(
        self,
        in_channnel: int,
        nblock: int,
        out_channel: int,
        scale: float = 1,
        pool: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.in_channel, self.out_channel, self.pool = in_channnel, out_channel, pool
        self.firstconv = normed_conv2d(in_channnel, out_channel, 3, padding=1)
        self.halve = nn.MaxPool2d(3, stride=2, padding=1) if pool else nn.Identity()
        blocks = (IMPALACnnResidualBlock(out_channel, scale / math.sqrt(nblock), **kwargs) for _ in range(nblock))
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, in, H, W]`` to ``[B, out, ceil(H/2), ceil(W/2)]`` (the same size without pooling)."""
        return self.blocks(self.halve(self.firstconv(x)))

    def output_shape(self, inshape: tuple[int, int, int]) -> tuple[int, int, int]:
        """The image shape that ``inshape`` ``(C, H, W)`` becomes."""
        channels, *size = inshape
        if channels != self.in_channel:
            raise ValueError(f"expected {self.in_channel} channels, got {channels}")
        height, width = ((side + 1) // 2 if self.pool else side for side in size)
        return self.out_channel, height, width


class IMPALAConvEncoder(nn.Module):
    """Stacks of ``IMPALACnnDownStack``, then a linear layer.

    State: ``stacks.i.firstconv``, ``stacks.i.blocks.j.conv0`` and ``conv1``, ``dense``.

    Arguments:
        obs_shape: ``(C, H, W)``.
        channels: width of each stack.
        outsize: number of features.
        scale_ob: divisor of the pixels.
        nblock: residual blocks per stack.
        final_relu: whether the features are activated.
        kwargs: of the stacks (``batch_norm``, ``pool``).
    """

    name = "IMPALAConvEncoder"

    def __init__(
        self,
        obs_shape: Sequence[int],
        channels: Sequence[int] = (16, 32, 32),
        outsize: int = 256,
        scale_ob: float = 255.0,
        nblock: int = 2,
        final_relu: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        shape = as_shape(obs_shape, "obs_shape")
        if isinstance(shape, int) or len(shape) != 3:
            raise ValueError(f"IMPALAConvEncoder takes images (C, H, W), got obs_shape={obs_shape!r}")
        if not channels:
            raise ValueError("channels must have at least one entry")
        self.scale_ob = scale_ob
        self.final_relu = final_relu
        current: tuple[int, int, int] = (shape[0], shape[1], shape[2])
        stack_scale = 1 / math.sqrt(len(channels))
        self.stacks = nn.ModuleList()
        for out in channels:
            stack = IMPALACnnDownStack(current[0], nblock, out, scale=stack_scale, **kwargs)
            self.stacks.append(stack)
            current = stack.output_shape(current)
        self.dense = normed_linear(math.prod(current), outsize, scale=1.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images ``[B, C, H, W]`` to features ``[B, outsize]``."""
        x = x / self.scale_ob
        for stack in self.stacks:
            x = stack(x)
        x = self.dense(torch.relu(x.flatten(1)))
        return torch.relu(x) if self.final_relu else x
