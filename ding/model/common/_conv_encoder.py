"""The encoder of image observations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from ding.model.common._shapes import as_shape
from ding.torch_utils.network.res_block import ResBlock


class ChannelLayerNorm(nn.Module):
    """Layer norm over the channels of ``[B, C, H, W]``, at each pixel by itself."""

    def __init__(self, channels: int, eps: float = 1e-3) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, C, H, W]`` in and out."""
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvEncoder(nn.Module):
    """Convolutions (by default those of the DQN paper), residual blocks, and a linear layer without activation.

    The input is not scaled. State: ``main.0``, ``main.2``, ``main.4`` are the convolutions, ``main.6`` and so on
    residual blocks, ``mid`` is the linear layer.

    Arguments:
        obs_shape: ``(C, H, W)``.
        hidden_size_list: channels of the convolutions, then of the residual blocks (all as wide as the last
            convolution), then the number of features. With as many entries as convolutions, the last one serves both.
        kernel_size, stride, padding: per convolution; padding is 0 unless given.
        layer_norm: normalise over channels after each convolution.
        norm_type: normalisation inside the residual blocks.

    Raises:
        ValueError: lists of unequal length, residual blocks of another width, or an image that the kernels do not fit.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        hidden_size_list: Sequence[int] = (32, 64, 64, 128),
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        kernel_size: Sequence[int] = (8, 4, 3),
        stride: Sequence[int] = (4, 2, 1),
        padding: Sequence[int] | None = None,
        layer_norm: bool = False,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        shape = as_shape(obs_shape, "obs_shape")
        if isinstance(shape, int) or len(shape) != 3:
            raise ValueError(f"ConvEncoder takes images (C, H, W), got obs_shape={obs_shape!r}")
        self.obs_shape = shape
        self.act = nn.ReLU() if activation is None else activation
        self.hidden_size_list = list(hidden_size_list)
        convs, blocks = len(kernel_size), self.hidden_size_list[len(kernel_size) : -1]
        paddings = [0] * convs if padding is None else list(padding)
        if not len(kernel_size) == len(stride) == len(paddings) or len(self.hidden_size_list) < convs:
            raise ValueError(
                f"{convs} convolutions need as many strides and paddings and at least as many sizes: "
                f"stride={stride!r}, padding={padding!r}, hidden_size_list={hidden_size_list!r}"
            )
        width = self.hidden_size_list[convs - 1]
        if any(size != width for size in blocks):
            raise ValueError(f"residual blocks must have the width {width} of the last convolution, got {blocks}")
        layers: list[nn.Module] = []
        channels = shape[0]
        for out, kernel, step, pad in zip(self.hidden_size_list, kernel_size, stride, paddings):
            layers.append(nn.Conv2d(channels, out, kernel, step, pad))
            if layer_norm:
                layers.append(ChannelLayerNorm(out))
            layers.append(self.act)
            channels = out
        layers += [ResBlock(width, activation=self.act, norm_type=norm_type) for _ in blocks]
        self.main = nn.Sequential(*layers, nn.Flatten())
        self.mid = nn.Linear(self._flat_size(kernel_size, stride, paddings, width), self.hidden_size_list[-1])

    def _flat_size(
        self, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int], channels: int
    ) -> int:
        # By arithmetic and not by a forward pass: building a model must not draw from or depend on anything.
        height, width = self.obs_shape[1:]
        for kernel, step, pad in zip(kernel_size, stride, padding):
            height = (height + 2 * pad - kernel) // step + 1
            width = (width + 2 * pad - kernel) // step + 1
        if height < 1 or width < 1:
            raise ValueError(f"obs_shape={self.obs_shape} is too small for kernel_size={list(kernel_size)}")
        return channels * height * width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images float ``[B, C, H, W]`` to features ``[B, hidden_size_list[-1]]``."""
        return self.mid(self.main(x))
