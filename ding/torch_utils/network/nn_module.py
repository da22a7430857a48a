"""Building blocks of networks.

One layer with its normalisation, activation and dropout; layers with learned noise (NoisyNet, arXiv:1706.10295);
integers as one-hot and binary vectors; resizing of images; layers of a fixed row norm.
"""

import itertools
import math
from collections.abc import Callable
from typing import ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn

from ding.torch_utils.network.normalization import build_normalization
from ding.utils.errors import InvalidArgumentError

#: The name of DI-engine.
Flatten = nn.Flatten

LayerFn = Callable[[int, int], nn.Module]
_PADS = {"reflect": nn.ReflectionPad2d, "replication": nn.ReplicationPad2d}


def sequential_pack(layers: list[nn.Module]) -> nn.Sequential:
    """Return an ``nn.Sequential`` of ``layers`` that has ``out_channels`` of its last convolution, if there is one."""
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
        raise InvalidArgumentError(f"pad_type must be one of {['zero', *_PADS]}, got {pad_type!r}")
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
    """Return a linear layer over ``[..., in_channels]``, then the normalisation, activation and dropout that are
    given.
    """
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
        raise InvalidArgumentError(f"layer_num must not be negative, got {layer_num}")
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


class NoiseLinearLayer(nn.Module):
    """Linear layer whose weights are ``mu + sigma * eps`` with factorised Gaussian ``eps``.

    ``enable_noise`` says whether the noise is on; None (at first) leaves it to ``training``: on in training mode.
    ``reset_noise`` draws new ``eps``. State: ``weight_mu``, ``weight_sigma`` ``[out, in]``, ``bias_mu``,
    ``bias_sigma`` ``[out]`` and the buffers ``weight_eps``, ``bias_eps``.

    Arguments:
        sigma0: scale of the initial ``sigma``: ``sigma0 / sqrt(in)`` for weights, ``sigma0 / sqrt(out)`` for biases.
    """

    weight_mu: nn.Parameter
    weight_sigma: nn.Parameter
    weight_eps: torch.Tensor
    bias_mu: nn.Parameter
    bias_sigma: nn.Parameter
    bias_eps: torch.Tensor

    def __init__(self, in_channels: int, out_channels: int, sigma0: float = 0.4) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.sigma0 = sigma0
        self.enable_noise: bool | None = None
        shapes = {"weight": (out_channels, in_channels), "bias": (out_channels,)}
        for name, shape in shapes.items():
            for part in ("mu", "sigma"):
                self.register_parameter(f"{name}_{part}", nn.Parameter(torch.empty(shape)))
            self.register_buffer(f"{name}_eps", torch.empty(shape))
        self.reset_parameters()
        self.reset_noise()

    def _draw(self, size: int) -> torch.Tensor:
        noise = torch.randn(size, device=self.weight_mu.device, dtype=self.weight_mu.dtype)
        return noise.sign() * noise.abs().sqrt()

    @torch.no_grad()
    def reset_noise(self) -> None:
        """Draw new ``eps``: the outer product of one noise vector per side."""
        in_noise = self._draw(self.in_channels)
        out_noise = self._draw(self.out_channels)
        # New tensors: a backward pass may still need the old ones.
        self.weight_eps, self.bias_eps = torch.outer(out_noise, in_noise), out_noise

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new ``mu`` (uniform) and set ``sigma`` to its initial constant."""
        bound = 1.0 / math.sqrt(self.in_channels)
        self.weight_mu.uniform_(-bound, bound)
        self.weight_sigma.fill_(self.sigma0 / math.sqrt(self.in_channels))
        self.bias_mu.uniform_(-bound, bound)
        self.bias_sigma.fill_(self.sigma0 / math.sqrt(self.out_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., in]`` to ``[..., out]``."""
        if not (self.training if self.enable_noise is None else self.enable_noise):
            return F.linear(x, self.weight_mu, self.bias_mu)
        weight = self.weight_mu + self.weight_sigma * self.weight_eps
        return F.linear(x, weight, self.bias_mu + self.bias_sigma * self.bias_eps)

    def extra_repr(self) -> str:
        """Sizes for ``repr``."""
        return f"in_channels={self.in_channels}, out_channels={self.out_channels}, sigma0={self.sigma0}"


def set_noise_mode(module: nn.Module, noise_enabled: bool) -> None:
    """Switch the noise of every ``NoiseLinearLayer`` in ``module`` on or off."""
    for layer in _noise_layers(module):
        layer.enable_noise = noise_enabled


def renew_noise(module: nn.Module) -> bool:
    """Switch the noise of every ``NoiseLinearLayer`` in ``module`` on and draw it; returns whether there is one."""
    layers = _noise_layers(module)
    for layer in layers:
        layer.enable_noise = True
        layer.reset_noise()
    return bool(layers)


def _noise_layers(module: nn.Module) -> list[NoiseLinearLayer]:
    return [layer for layer in module.modules() if isinstance(layer, NoiseLinearLayer)]


def noise_block(
    in_channels: int,
    out_channels: int,
    activation: nn.Module | None = None,
    norm_type: str | None = None,
    use_dropout: bool = False,
    dropout_probability: float = 0.5,
    sigma0: float = 0.4,
) -> nn.Sequential:
    """``fc_block`` with a ``NoiseLinearLayer`` for the linear layer."""
    layer = NoiseLinearLayer(in_channels, out_channels, sigma0=sigma0)
    return nn.Sequential(*layer_parts(layer, out_channels, activation, norm_type, use_dropout, dropout_probability))


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
        raise InvalidArgumentError(f"max_val must be positive, got {max_val}")
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
        """Return the factor for ``repr``."""
        return f"scale_factor={self.scale_factor}"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, C, H, W]`` to ``[B, C, H * scale, W * scale]``."""
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


class ChannelShuffle(nn.Module):
    """Mix the channels of ``group_num`` groups: channel k of group g comes to place k * group_num + g."""

    def __init__(self, group_num: int) -> None:
        super().__init__()
        self.group_num = group_num

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, C, H, W]`` to the same shape."""
        return F.channel_shuffle(x, self.group_num)


class NaiveFlatten(nn.Flatten):
    """``torch.nn.Flatten``, under the name that it has in DI-engine."""
