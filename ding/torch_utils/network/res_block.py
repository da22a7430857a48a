"""Residual blocks (arXiv:1512.03385)."""

import torch
from torch import nn

from ding.torch_utils.network.nn_module import conv2d_block, fc_block
from ding.utils.errors import InvalidArgumentError

_RES_TYPES = ("basic", "bottleneck", "downsample")


class ResBlock(nn.Module):
    """Convolutions with a skip connection; the activation comes after the sum.

    Arguments:
        res_type: ``basic`` (3x3, 3x3), ``bottleneck`` (1x1, 3x3, 1x1) or ``downsample`` (3x3 with stride 2, 3x3, and
            a 3x3 projection with stride 2 on the skip path, so the image gets half its size).
        out_channels: ``in_channels`` unless given; another number needs ``downsample``.
    """

    def __init__(
        self,
        in_channels: int,
        activation: nn.Module = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        norm_type: str | None = "BN",
        res_type: str = "basic",
        bias: bool = True,
        out_channels: int | None = None,
    ) -> None:
        super().__init__()
        if res_type not in _RES_TYPES:
            raise InvalidArgumentError(f"res_type must be one of {_RES_TYPES}, got {res_type!r}")
        out = in_channels if out_channels is None else out_channels
        if out != in_channels and res_type != "downsample":
            raise InvalidArgumentError(
                f"res_type={res_type!r} keeps the channels: out_channels={out}, in_channels={in_channels}"
            )
        self.act = activation
        self.res_type = res_type

        def block(width_in: int, kernel: int, stride: int, act: nn.Module | None) -> nn.Sequential:
            padding = kernel // 2
            return conv2d_block(width_in, out, kernel, stride, padding, activation=act, norm_type=norm_type, bias=bias)

        if res_type == "basic":
            self.conv1 = block(in_channels, 3, 1, activation)
            self.conv2 = block(out, 3, 1, None)
        elif res_type == "bottleneck":
            self.conv1 = block(in_channels, 1, 1, activation)
            self.conv2 = block(out, 3, 1, activation)
            self.conv3 = block(out, 1, 1, None)
        else:
            self.conv1 = block(in_channels, 3, 2, activation)
            self.conv2 = block(out, 3, 1, None)
            # The projection of the input is not normalised.
            self.conv3 = conv2d_block(in_channels, out, 3, 2, 1, activation=None, norm_type=None, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, C, H, W]`` in; the same shape out, or ``[B, out, ceil(H/2), ceil(W/2)]`` for ``downsample``."""
        y = self.conv2(self.conv1(x))
        if self.res_type == "bottleneck":
            y = self.conv3(y)
        skip = self.conv3(x) if self.res_type == "downsample" else x
        output: torch.Tensor = self.act(y + skip)
        return output


class ResFCBlock(nn.Module):
    """Two linear layers with a skip connection over ``[B, in_channels]``; activation and dropout come after the sum."""

    def __init__(
        self,
        in_channels: int,
        activation: nn.Module = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        norm_type: str | None = "BN",
        dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.act = activation
        self.fc1 = fc_block(in_channels, in_channels, activation, norm_type)
        self.fc2 = fc_block(in_channels, in_channels, None, norm_type)
        self.dropout = None if dropout is None else nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, in_channels]`` in and out."""
        y = self.act(self.fc2(self.fc1(x)) + x)
        output: torch.Tensor = y if self.dropout is None else self.dropout(y)
        return output


class TemporalSpatialResBlock(nn.Module):
    """Two layers with a skip connection over ``[..., input_dim]``, the first one shifted by an embedding of time.

    Arguments:
        output_dim: features of the result; the skip connection is a linear layer where they differ.
        t_dim: features of the embedding.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        t_dim: int = 128,
        activation: nn.Module = nn.SiLU(),  # noqa: B008 - stateless, and part of the public signature
    ) -> None:
        super().__init__()
        self.time_mlp = nn.Sequential(activation, nn.Linear(t_dim, output_dim))
        self.dense1 = nn.Sequential(nn.Linear(input_dim, output_dim), activation)
        self.dense2 = nn.Sequential(nn.Linear(output_dim, output_dim), activation)
        same = input_dim == output_dim
        self.modify_x: nn.Module = nn.Identity() if same else nn.Linear(input_dim, output_dim)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """``x [..., input_dim]`` and ``t [..., t_dim]`` to ``[..., output_dim]``."""
        output: torch.Tensor = self.dense2(self.dense1(x) + self.time_mlp(t)) + self.modify_x(x)
        return output
