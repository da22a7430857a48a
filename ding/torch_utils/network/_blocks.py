"""Blocks of one linear or convolution layer with its normalisation, activation and dropout."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from torch import nn

from ding.torch_utils.network.normalization import build_normalization

LayerFn = Callable[[int, int], nn.Module]
_PADS = {"reflect": nn.ReflectionPad2d, "replication": nn.ReplicationPad2d}


def sequential_pack(layers: list[nn.Module]) -> nn.Sequential:
    """An ``nn.Sequential`` of ``layers`` that tells ``out_channels`` of its last convolution, if there is one."""
    seq = nn.Sequential(*layers)
    for layer in reversed(layers):
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d):
            seq.out_channels = layer.out_channels  # type: ignore[assignment]
            break
    return seq


def _finish(layer: nn.Module, norm: nn.Module | None, activation: nn.Module | None) -> nn.Sequential:
    return sequential_pack([part for part in (layer, norm, activation) if part is not None])


def conv1d_block(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    activation: nn.Module | None = None,
    norm_type: str | None = None,
) -> nn.Sequential:
    """Convolution over ``[B, C, L]``, then the normalisation and the activation that are given."""
    conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
    norm = None if norm_type is None else build_normalization(norm_type, dim=1)(out_channels)
    return _finish(conv, norm, activation)


def _norm2d(norm_type: str | None, channels: int, groups: int) -> nn.Module | None:
    if norm_type is None:
        return None
    if norm_type == "LN":  # over channels and pixels, independent of the image size
        return nn.GroupNorm(1, channels)
    if norm_type == "GN":
        return nn.GroupNorm(groups, channels)
    return build_normalization(norm_type, dim=2)(channels)


def conv2d_block(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    pad_type: str = "zero",
    activation: nn.Module | None = None,
    norm_type: str | None = None,
    num_groups_for_gn: int = 1,
    bias: bool = True,
) -> nn.Sequential:
    """Convolution over ``[B, C, H, W]``, then the normalisation and the activation that are given.

    Arguments:
        pad_type: ``zero``, ``reflect`` or ``replication``.
        norm_type: ``BN``, ``IN``, ``SyncBN``, ``LN`` (one group) or ``GN`` (``num_groups_for_gn`` groups).
    """
    if pad_type != "zero" and pad_type not in _PADS:
        raise ValueError(f"pad_type must be one of {['zero', *_PADS]}, got {pad_type!r}")
    conv_padding = padding if pad_type == "zero" else 0
    conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride, conv_padding, dilation, groups, bias=bias)
    norm = _norm2d(norm_type, out_channels, num_groups_for_gn)
    parts = [] if pad_type == "zero" else [_PADS[pad_type](padding)]
    return sequential_pack([*parts, *(part for part in (conv, norm, activation) if part is not None)])


def deconv2d_block(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    activation: nn.Module | None = None,
    norm_type: str | None = None,
) -> nn.Sequential:
    """Transposed convolution over ``[B, C, H, W]``, then the normalisation and the activation that are given."""
    conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding, output_padding, groups)
    norm = None if norm_type is None else build_normalization(norm_type, dim=2)(out_channels)
    return _finish(conv, norm, activation)


def fc_block(
    in_channels: int,
    out_channels: int,
    activation: nn.Module | None = None,
    norm_type: str | None = None,
    use_dropout: bool = False,
    dropout_probability: float = 0.5,
) -> nn.Sequential:
    """A linear layer over ``[..., in_channels]``, then the normalisation, activation and dropout that are given."""
    linear = nn.Linear(in_channels, out_channels)
    return nn.Sequential(*layer_parts(linear, out_channels, activation, norm_type, use_dropout, dropout_probability))


def layer_parts(
    layer: nn.Module,
    out_channels: int,
    activation: nn.Module | None,
    norm_type: str | None,
    use_dropout: bool,
    dropout_probability: float,
) -> list[nn.Module]:
    """``layer`` and what follows it, in order: normalisation, activation, dropout."""
    parts = [layer]
    if norm_type is not None:
        parts.append(build_normalization(norm_type, dim=1)(out_channels))
    if activation is not None:
        parts.append(activation)
    if use_dropout:
        parts.append(nn.Dropout(dropout_probability))
    return parts


def MLP(
    in_channels: int,
    hidden_channels: int,
    out_channels: int,
    layer_num: int,
    layer_fn: LayerFn | None = None,
    activation: nn.Module | None = None,
    norm_type: str | None = None,
    use_dropout: bool = False,
    dropout_probability: float = 0.5,
    output_activation: bool = True,
    output_norm: bool = True,
    last_linear_layer_init_zero: bool = False,
) -> nn.Sequential:
    """``layer_num`` layers ``in -> hidden -> ... -> hidden -> out`` as one flat ``nn.Sequential``.

    Each layer is linear, then normalisation, activation and dropout where asked for. ``layer_num`` 0 is the identity.

    Arguments:
        layer_fn: makes a layer from ``(in, out)``; ``nn.Linear`` unless given.
        output_activation, output_norm: whether the last layer has them too.
        last_linear_layer_init_zero: start with a zero weight and bias in the last linear layer.
    """
    if layer_num < 0:
        raise ValueError(f"layer_num must not be negative, got {layer_num}")
    if layer_num == 0:
        return nn.Sequential(nn.Identity())
    make = nn.Linear if layer_fn is None else layer_fn
    channels = [in_channels, *[hidden_channels] * (layer_num - 1), out_channels]
    parts: list[nn.Module] = []
    for index, (width_in, width_out) in enumerate(itertools.pairwise(channels)):
        last = index == layer_num - 1
        act = activation if output_activation or not last else None
        norm = norm_type if output_norm or not last else None
        parts += layer_parts(make(width_in, width_out), width_out, act, norm, use_dropout, dropout_probability)
    if last_linear_layer_init_zero:
        _zero_last_linear(parts)
    return nn.Sequential(*parts)


def _zero_last_linear(parts: list[nn.Module]) -> None:
    for part in reversed(parts):
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
            return
