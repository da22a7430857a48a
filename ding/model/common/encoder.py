"""Encoders that map observations to features."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.shapes import Observation, as_shape
from ding.torch_utils.network.input_dtype import as_input
from ding.torch_utils.network.nn_module import fc_block, normed_conv2d, normed_linear
from ding.torch_utils.network.normalization import DreamerLayerNorm, build_normalization
from ding.torch_utils.network.res_block import ResBlock, ResFCBlock
from ding.torch_utils.network.same_padding import Conv2dSame


def encode(observation: Observation, encoder: nn.Module) -> torch.Tensor:
    """Features of an observation without its mask. A custom encoder receives integers and bools unchanged."""
    if isinstance(observation, torch.Tensor) and not observation.is_floating_point():
        observation = as_input(observation, encoder)
    features: torch.Tensor = encoder(observation)
    return features


class FCEncoder(nn.Module):
    """Linear layers, each followed by the activation (including the last one).

    State: ``init`` is the first linear layer, ``main`` the others: ``main.0``, ``main.2``, ... with activations
    between.

    Arguments:
        obs_shape: features of the observation.
        hidden_size_list: widths of the layers; all equal with ``res_block``.
        res_block: Whether to use residual blocks, one per entry of ``hidden_size_list``, after the first layer.
        norm_type: normalisation before each activation, or None. (DI-engine applied it with ``res_block`` only.)
        dropout: probability of dropout after each layer of ``main``, or None.

    Raises:
        ValueError: empty or, with ``res_block``, unequal ``hidden_size_list``; ``obs_shape`` of several axes.
    """

    def __init__(
        self,
        obs_shape: int | Sequence[int],
        hidden_size_list: Sequence[int],
        res_block: bool = False,
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        norm_type: str | None = None,
        dropout: float | None = None,
    ) -> None:
        super().__init__()
        widths = list(hidden_size_list)
        size = as_shape(obs_shape, "obs_shape")
        if not isinstance(size, int):
            raise ValueError(f"FCEncoder takes vector observations, got obs_shape={obs_shape!r}")
        if not widths or (res_block and len(set(widths)) != 1):
            want = "equal widths" if res_block else "at least one width"
            raise ValueError(f"hidden_size_list must have {want}, got {hidden_size_list!r}")
        self.obs_shape = size
        self.act = nn.ReLU() if activation is None else activation
        self.init = nn.Linear(size, widths[0])
        no_norm = norm_type is None or res_block
        self.init_norm = None if no_norm else build_normalization(str(norm_type), dim=1)(widths[0])
        if res_block:
            blocks = [ResFCBlock(width, self.act, norm_type, dropout) for width in widths]
            self.main: nn.Module = blocks[0] if len(blocks) == 1 else nn.Sequential(*blocks)
        else:
            self.main = nn.Sequential(*self._main_layers(widths, norm_type, dropout))

    def _main_layers(self, widths: list[int], norm_type: str | None, dropout: float | None) -> list[nn.Module]:
        probability = 0.5 if dropout is None else dropout
        layers: list[nn.Module] = []
        for width_in, width_out in itertools.pairwise(widths):
            layers += fc_block(width_in, width_out, self.act, norm_type, dropout is not None, probability)
        return layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map observations ``[..., obs_shape]`` of any dtype to features ``[..., hidden_size_list[-1]]``."""
        x = self.init(x if x.is_floating_point() else x.to(self.init.weight.dtype))
        x = self.act(x if self.init_norm is None else self.init_norm(x))
        output: torch.Tensor = self.main(x)
        return output


class ConvEncoder(nn.Module):
    """Convolutions (by default those of the DQN paper), residual blocks, and a linear layer without activation.

    The input is not scaled. State: ``main.0``, ``main.2``, ``main.4`` are the convolutions, ``main.6`` and so on
    residual blocks, ``mid`` is the linear layer.

    Arguments:
        obs_shape: ``(C, H, W)``.
        hidden_size_list: channels of the convolutions, then of the residual blocks (all as wide as the last
            convolution), then the number of features. With as many entries as convolutions, the last one serves both.
        kernel_size, stride, padding: per convolution; padding is 0 unless given.
        layer_norm: the encoder of Dreamer instead: convolutions of stride 2 that give half the size, rounded up, and
            have no bias; a layer norm over the channels after each. Strides and paddings are not used, and the sizes
            are the channels of each convolution, then the number of features.
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
        if layer_norm:
            layers, flat = self._halving_layers(kernel_size)
        else:
            layers, flat = self._layers(kernel_size, stride, padding, norm_type)
        self.main = nn.Sequential(*layers, nn.Flatten())
        self.mid = nn.Linear(flat, self.hidden_size_list[-1])

    def _halving_layers(self, kernel_size: Sequence[int]) -> tuple[list[nn.Module], int]:
        """Return the layers of Dreamer's encoder, and the number of their outputs."""
        widths = [self.obs_shape[0], *self.hidden_size_list[: len(kernel_size)]]
        if len(self.hidden_size_list) not in (len(kernel_size), len(kernel_size) + 1):
            raise ValueError(
                f"with layer_norm, {len(kernel_size)} kernels need as many sizes and the number of features, got "
                f"hidden_size_list={self.hidden_size_list}"
            )
        layers: list[nn.Module] = []
        height, width = self.obs_shape[1:]
        for kernel, (size_in, size_out) in zip(kernel_size, itertools.pairwise(widths)):
            layers += [Conv2dSame(size_in, size_out, kernel, 2, bias=False), DreamerLayerNorm(size_out), self.act]
            height, width = -(-height // 2), -(-width // 2)
        return layers, height * width * widths[-1]

    def _layers(
        self,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int] | None,
        norm_type: str | None,
    ) -> tuple[list[nn.Module], int]:
        """Return the convolutions and residual blocks, and the number of their outputs."""
        convs, blocks = len(kernel_size), self.hidden_size_list[len(kernel_size) : -1]
        paddings = [0] * convs if padding is None else list(padding)
        if not len(kernel_size) == len(stride) == len(paddings) or len(self.hidden_size_list) < convs:
            raise ValueError(
                f"{convs} convolutions need as many strides and paddings and at least as many sizes: "
                f"stride={stride!r}, padding={padding!r}, hidden_size_list={self.hidden_size_list!r}"
            )
        width = self.hidden_size_list[convs - 1]
        if any(size != width for size in blocks):
            raise ValueError(f"residual blocks must have the width {width} of the last convolution, got {blocks}")
        layers: list[nn.Module] = []
        channels = self.obs_shape[0]
        for out, kernel, step, pad in zip(self.hidden_size_list, kernel_size, stride, paddings):
            layers.append(nn.Conv2d(channels, out, kernel, step, pad))
            layers.append(self.act)
            channels = out
        layers += [ResBlock(width, activation=self.act, norm_type=norm_type) for _ in blocks]
        return layers, self._flat_size(kernel_size, stride, paddings, width)

    def _flat_size(
        self, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int], channels: int
    ) -> int:
        # Computed arithmetically, without a forward pass: building a model must not draw random numbers.
        height, width = self.obs_shape[1:]
        for kernel, step, pad in zip(kernel_size, stride, padding):
            height = (height + 2 * pad - kernel) // step + 1
            width = (width + 2 * pad - kernel) // step + 1
        if height < 1 or width < 1:
            raise ValueError(f"obs_shape={self.obs_shape} is too small for kernel_size={list(kernel_size)}")
        return channels * height * width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images ``[B, C, H, W]`` of any dtype to features ``[B, hidden_size_list[-1]]``."""
        output: torch.Tensor = self.mid(self.main(x if x.is_floating_point() else x.to(self.mid.weight.dtype)))
        return output


class DictEncoder(nn.Module):
    """Encode named observations: each image by a ``ConvEncoder``, then all of them by one ``FCEncoder``.

    The names are taken in sorted order. State: ``convs.<name>`` per image, ``fc``.

    Arguments:
        obs_shape: shape per name: an int or ``(n,)`` for a vector, ``(C, H, W)`` for an image.
        hidden_size_list: of the ``FCEncoder``; its last entry is the number of features.
        conv_hidden_size_list: of each ``ConvEncoder``.
    """

    def __init__(
        self,
        obs_shape: Mapping[str, Any],
        hidden_size_list: Sequence[int],
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        norm_type: str | None = None,
        dropout: float | None = None,
        conv_hidden_size_list: Sequence[int] = (32, 64, 64, 128),
    ) -> None:
        super().__init__()
        if not obs_shape:
            raise ValueError("a dict obs_shape must name at least one observation")
        self.names = sorted(obs_shape)
        self.convs = nn.ModuleDict()
        total = 0
        for name in self.names:
            shape = as_shape(obs_shape[name], f"obs_shape[{name!r}]")
            if isinstance(shape, int):
                total += shape
            elif len(shape) == 3:
                self.convs[name] = ConvEncoder(shape, conv_hidden_size_list, activation)
                total += conv_hidden_size_list[-1]
            else:
                raise ValueError(f"obs_shape[{name!r}] must have one or three axes, got {shape}")
        self.fc = FCEncoder(total, hidden_size_list, activation=activation, norm_type=norm_type, dropout=dropout)

    def forward(self, x: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Map ``{name: [B, *shape of name]}`` to features ``[B, hidden_size_list[-1]]``; other names are ignored."""
        missing = [name for name in self.names if name not in x]
        if missing:
            raise KeyError(f"the observation misses {missing}, got {sorted(x)}")
        parts = [self._encode(name, x[name]) for name in self.names]
        output: torch.Tensor = self.fc(torch.cat(parts, dim=-1))
        return output

    def _encode(self, name: str, x: torch.Tensor) -> torch.Tensor:
        if name in self.convs:
            output: torch.Tensor = self.convs[name](x.to(self.fc.init.weight.dtype))
            return output
        x = x.unsqueeze(-1) if x.dim() == 1 else x
        return x.to(self.fc.init.weight.dtype)  # a Discrete component comes as integers


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
        output: torch.Tensor = x + self.conv1(torch.relu(y))
        return output


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
        """Map ``[B, in, H, W]`` to ``[B, out, ceil(H/2), ceil(W/2)]`` (the same size without pooling)."""
        output: torch.Tensor = self.blocks(self.halve(self.firstconv(x)))
        return output

    def output_shape(self, inshape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the image shape that ``inshape`` ``(C, H, W)`` becomes."""
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
        final_relu: Whether to activate the features.
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
        """Map images ``[B, C, H, W]`` of any dtype to features ``[B, outsize]``."""
        x = x / self.scale_ob
        for stack in self.stacks:
            x = stack(x)
        x = self.dense(torch.relu(x.flatten(1)))
        return torch.relu(x) if self.final_relu else x


class GaussianFourierProjectionTimeEncoder(nn.Module):
    """Sines and cosines of a time at fixed random frequencies (arXiv:2006.10739).

    State: ``W`` ``[embed_dim // 2]``, 2 pi times the frequencies, drawn once and never trained.

    Arguments:
        embed_dim: even number of features.
        scale: deviation of the frequencies.
    """

    def __init__(self, embed_dim: int, scale: float = 30.0) -> None:
        super().__init__()
        if embed_dim % 2:
            raise ValueError(f"embed_dim must be even, got {embed_dim}")
        self.W = nn.Parameter(torch.randn(embed_dim // 2) * scale * 2 * math.pi, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map times ``[...]`` to features ``[..., embed_dim]``."""
        phase = x.unsqueeze(-1) * self.W
        return torch.cat([phase.sin(), phase.cos()], dim=-1)
