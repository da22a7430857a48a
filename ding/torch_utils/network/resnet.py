"""Residual networks of images, "ResNet" (arXiv:1512.03385), with grouped (arXiv:1611.05431) and dilated convolutions.

Modules have the names of DI-engine 0.5 (``conv1, bn1, layer1.0.conv1, ..., layer2.0.downsample.0, ..., fc``), so its
weights load; so do those of torchvision's networks of these blocks.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ding.torch_utils.network.same_padding import AvgPool2dSame as AvgPool2dSame
from ding.torch_utils.network.same_padding import avg_pool2d_same as avg_pool2d_same
from ding.torch_utils.network.same_padding import get_padding as get_padding
from ding.torch_utils.network.same_padding import get_same_padding as get_same_padding
from ding.torch_utils.network.same_padding import pad_same as pad_same
from ding.torch_utils.network.same_padding import to_2tuple as to_2tuple
from ding.utils.errors import InvalidArgumentError

Layer = Callable[..., nn.Module]
"""A class of modules, or a function that makes one."""
OUTPUT_STRIDES = (8, 16, 32)


def create_classifier(
    num_features: int, num_classes: int, pool_type: str = "avg", use_conv: bool = False
) -> tuple[nn.Module, nn.Module]:
    """Return the pooling of ``[B, num_features, H, W]`` and the linear layer; ``Identity`` for ``num_classes=0``.

    Raises:
        InvalidArgumentError: ``pool_type`` is not ``'avg'``, or ``use_conv``.
    """
    if pool_type != "avg" or use_conv:
        raise InvalidArgumentError(f"pool_type must be 'avg' and use_conv False, got {pool_type!r} and {use_conv!r}")
    fc = nn.Linear(num_features, num_classes) if num_classes > 0 else nn.Identity()
    return nn.AdaptiveAvgPool2d(1), fc


class ClassifierHead(nn.Module):
    """Average over the image, dropout and a linear layer; arguments and errors of :func:`create_classifier`."""

    def __init__(
        self, in_chs: int, num_classes: int, pool_type: str = "avg", drop_rate: float = 0.0, use_conv: bool = False
    ) -> None:
        super().__init__()
        self.drop_rate = drop_rate
        self.global_pool, self.fc = create_classifier(in_chs, num_classes, pool_type, use_conv)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, in_chs, H, W]`` to ``[B, num_classes]``."""
        x = F.dropout(self.global_pool(x).flatten(1), self.drop_rate, self.training)
        output: torch.Tensor = self.fc(x)
        return output


def create_attn(layer: Layer | None, plane: int) -> None:
    """Return None: blocks have no attention, and ``attn_layer`` is not used."""


def drop_blocks(drop_block_rate: float = 0.0) -> list[None]:
    """Return None for each of the four stages.

    Raises:
        InvalidArgumentError: another rate than 0, as blocks of features are not dropped.
    """
    if drop_block_rate != 0:
        raise InvalidArgumentError(f"drop_block_rate must be 0, got {drop_block_rate!r}")
    return [None] * 4


def downsample_conv(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    dilation: int = 1,
    first_dilation: int | None = None,
    norm_layer: Layer | None = None,
) -> nn.Sequential:
    """Return the projection of a skip path: a convolution (1x1 unless it strides or dilates), and a normalisation."""
    size = 1 if stride == 1 and dilation == 1 else kernel_size
    spread = (first_dilation or dilation) if size > 1 else 1
    padding = get_padding(size, stride, spread)
    conv = nn.Conv2d(in_channels, out_channels, size, stride, padding, spread, bias=False)
    return nn.Sequential(conv, (norm_layer or nn.BatchNorm2d)(out_channels))


def downsample_avg(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    dilation: int = 1,
    first_dilation: int | None = None,
    norm_layer: Layer | None = None,
) -> nn.Sequential:
    """Return the projection of a skip path that strides by an average of 2x2 pixels (arXiv:1812.01187, "ResNet-D").

    Arguments:
        kernel_size: not used, as the convolution is 1x1; nor is ``first_dilation``.
    """
    pool: nn.Module = nn.Identity()
    if dilation > 1:
        pool = AvgPool2dSame(2, 1, ceil_mode=True, count_include_pad=False)
    elif stride > 1:
        pool = nn.AvgPool2d(2, stride, ceil_mode=True, count_include_pad=False)
    conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)
    return nn.Sequential(pool, conv, (norm_layer or nn.BatchNorm2d)(out_channels))


class _ConvOptions(NamedTuple):
    """Of the 3x3 convolution that strides."""

    stride: int
    dilation: int
    groups: int

    def conv(self, inplanes: int, planes: int) -> nn.Conv2d:
        return nn.Conv2d(inplanes, planes, 3, self.stride, self.dilation, self.dilation, self.groups, bias=False)


class _Block(nn.Module):
    """Convolutions ``conv1, conv2, ...``, each with a normalisation and an activation, and a skip path to the last.

    A block declares its convolutions, and which of them strides.

    Arguments:
        inplanes: channels of the input.
        planes: channels of the output over ``expansion``.
        stride: 1, or 2 for half the size.
        downsample: projects the skip path where shapes differ.
        cardinality: groups of the convolution that strides.
        base_width: channels of a group, of 64 ``planes``.
        reduce_first: divides the channels after the first convolution.
        dilation: of 3x3 convolutions.
        first_dilation: of the convolution that strides; ``dilation`` by default.
        attn_layer: not used.
        aa_layer: ``aa_layer(channels=, stride=)`` strides after the convolution instead of it.
        drop_block: a function of the features after each normalisation.
        drop_path: a function of the features before the sum.
    """

    expansion: ClassVar[int]
    strides_at: ClassVar[int]

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        cardinality: int = 1,
        base_width: int = 64,
        reduce_first: int = 1,
        dilation: int = 1,
        first_dilation: int | None = None,
        act_layer: Layer = nn.ReLU,
        norm_layer: Layer = nn.BatchNorm2d,
        attn_layer: Layer | None = None,
        aa_layer: Layer | None = None,
        drop_block: Callable[[torch.Tensor], torch.Tensor] | None = None,
        drop_path: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.stride = stride
        self.dilation = dilation
        self.drop_block = drop_block
        self.drop_path = drop_path
        first_dilation = first_dilation or dilation
        uses_aa = aa_layer is not None and (stride == 2 or first_dilation != dilation)
        strided = _ConvOptions(1 if uses_aa else stride, first_dilation, cardinality)
        width = planes * base_width // 64 * cardinality
        convs = self._convs(inplanes, planes, width, reduce_first, strided)
        self.aa: nn.Module | None = None
        self.depth = len(convs)
        for index, conv in enumerate(convs, 1):
            self.add_module(f"conv{index}", conv)
            self.add_module(f"bn{index}", norm_layer(conv.out_channels))
            self.add_module(f"act{index}", act_layer(inplace=True))
            if index == self.strides_at and uses_aa and aa_layer is not None:
                self.aa = aa_layer(channels=conv.out_channels, stride=stride)
        self.downsample = downsample

    def _convs(
        self, inplanes: int, planes: int, width: int, reduce_first: int, strided: _ConvOptions
    ) -> list[nn.Conv2d]:
        """Return the convolutions; ``width`` is that of the one which strides."""
        raise NotImplementedError

    def zero_init_last_bn(self) -> None:
        """Let the block begin as its skip path."""
        nn.init.zeros_(self.get_submodule(f"bn{self.depth}").get_parameter("weight"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, inplanes, H, W]`` to ``[B, planes * expansion, H / stride, W / stride]``, rounded up."""
        y = x
        for index in range(1, self.depth + 1):
            y = self.get_submodule(f"bn{index}")(self.get_submodule(f"conv{index}")(y))
            y = y if self.drop_block is None else self.drop_block(y)
            if index == self.depth:
                y = y if self.drop_path is None else self.drop_path(y)
                y = y + (x if self.downsample is None else self.downsample(x))
            y = self.get_submodule(f"act{index}")(y)
            if index == self.strides_at and self.aa is not None:
                y = self.aa(y)
        return y


class BasicBlock(_Block):
    """Two 3x3 convolutions, of which the first strides, and a skip path.

    Raises:
        InvalidArgumentError: ``cardinality`` is not 1, or ``base_width`` is not 64.
    """

    expansion = 1
    strides_at = 1

    def _convs(
        self, inplanes: int, planes: int, width: int, reduce_first: int, strided: _ConvOptions
    ) -> list[nn.Conv2d]:
        if strided.groups != 1 or width != planes:
            raise InvalidArgumentError(
                f"BasicBlock needs cardinality=1 and base_width=64, got {strided.groups} groups and {width} channels "
                f"of {planes}"
            )
        first = planes // reduce_first
        second = nn.Conv2d(first, planes, 3, padding=self.dilation, dilation=self.dilation, bias=False)
        return [strided.conv(inplanes, first), second]


class Bottleneck(_Block):
    """Convolutions 1x1, 3x3 and 1x1, of which the second strides, and a skip path."""

    expansion = 4
    strides_at = 2

    def _convs(
        self, inplanes: int, planes: int, width: int, reduce_first: int, strided: _ConvOptions
    ) -> list[nn.Conv2d]:
        first = width // reduce_first
        return [
            nn.Conv2d(inplanes, first, 1, bias=False),
            strided.conv(first, width),
            nn.Conv2d(width, planes * self.expansion, 1, bias=False),
        ]


def make_blocks(
    block_fn: type[_Block],
    channels: Sequence[int],
    block_repeats: Sequence[int],
    inplanes: int,
    reduce_first: int = 1,
    output_stride: int = 32,
    down_kernel_size: int = 1,
    avg_down: bool = False,
    drop_block_rate: float = 0.0,
    drop_path_rate: float = 0.0,
    **kwargs: Any,
) -> tuple[list[tuple[str, nn.Module]], list[dict[str, int | str]]]:
    """Return the stages of a network after its stem, which strides by 4, as ``(name, module)``, and their features.

    Arguments:
        channels: per stage; the blocks give ``block_fn.expansion`` times as many.
        block_repeats: blocks per stage.
        inplanes: channels of the stem.
        output_stride: from where the network has this stride, stages dilate instead.
        down_kernel_size: kernel of the skip paths that stride.
        avg_down: use :func:`downsample_avg` for them.
        drop_block_rate: only 0.
        drop_path_rate: not used.
        kwargs: of the blocks.
    """
    drop_blocks(drop_block_rate)
    stages: list[tuple[str, nn.Module]] = []
    features: list[dict[str, int | str]] = []
    net_stride, dilation, first_dilation = 4, 1, 1
    downsample_layer = downsample_avg if avg_down else downsample_conv
    for index, (planes, repeats) in enumerate(zip(channels, block_repeats, strict=False)):
        stride = 1 if index == 0 else 2
        if net_stride >= output_stride:
            dilation, stride = dilation * stride, 1
        net_stride *= stride
        outplanes = planes * block_fn.expansion
        downsample = None
        if stride != 1 or inplanes != outplanes:
            downsample = downsample_layer(
                inplanes, outplanes, down_kernel_size, stride, dilation, first_dilation, kwargs.get("norm_layer")
            )
        blocks = []
        for _ in range(repeats):
            block = block_fn(
                inplanes,
                planes,
                stride,
                downsample,
                reduce_first=reduce_first,
                dilation=dilation,
                first_dilation=first_dilation,
                **kwargs,
            )
            blocks.append(block)
            inplanes, stride, downsample, first_dilation = outplanes, 1, None, dilation
        name = f"layer{index + 1}"
        stages.append((name, nn.Sequential(*blocks)))
        features.append({"num_chs": inplanes, "reduction": net_stride, "module": name})
    return stages, features


class ResNet(nn.Module):
    """A stem, four stages of 64, 128, 256 and 512 channels, an average over the image, and a linear layer.

    Arguments:
        block: ``BasicBlock`` or ``Bottleneck``.
        layers: blocks per stage.
        num_classes: outputs; with 0 the averaged features.
        in_chans: channels of the images.
        cardinality: groups of the 3x3 convolutions of ``Bottleneck``, each of ``base_width`` of 64 of the channels.
        stem_width: half of the channels of a deep stem.
        stem_type: ``''`` for one 7x7 convolution, ``'deep'`` or ``'deep_tiered'`` for three 3x3 ones.
        replace_stem_pool: use a convolution that strides in place of the max pooling.
        output_stride: 8, 16 or 32; stages beyond it dilate.
        block_reduce_first: divides the channels after the first convolution of a block.
        down_kernel_size: kernel of the skip paths that stride.
        avg_down: these skip paths average before a 1x1 convolution.
        act_layer: ``act_layer(inplace=True)``.
        norm_layer: ``norm_layer(channels)``.
        aa_layer: ``aa_layer(channels=, stride=)`` strides instead of convolutions and the max pooling.
        drop_rate: dropout before the linear layer.
        drop_path_rate: not used.
        drop_block_rate: only 0.
        global_pool: only ``'avg'``.
        zero_init_last_bn: blocks begin as their skip paths.
        block_args: further arguments of the blocks.

    Raises:
        InvalidArgumentError: an argument is none of these.
    """

    def __init__(
        self,
        block: type[_Block],
        layers: Sequence[int],
        num_classes: int = 1000,
        in_chans: int = 3,
        cardinality: int = 1,
        base_width: int = 64,
        stem_width: int = 64,
        stem_type: str = "",
        replace_stem_pool: bool = False,
        output_stride: int = 32,
        block_reduce_first: int = 1,
        down_kernel_size: int = 1,
        avg_down: bool = False,
        act_layer: Layer = nn.ReLU,
        norm_layer: Layer = nn.BatchNorm2d,
        aa_layer: Layer | None = None,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        drop_block_rate: float = 0.0,
        global_pool: str = "avg",
        zero_init_last_bn: bool = True,
        block_args: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if output_stride not in OUTPUT_STRIDES:
            raise InvalidArgumentError(f"output_stride must be one of {OUTPUT_STRIDES}, got {output_stride!r}")
        self.drop_rate = drop_rate
        inplanes = 2 * stem_width if "deep" in stem_type else 64
        self.conv1 = _stem(stem_type, stem_width, in_chans, act_layer, norm_layer)
        self.bn1 = norm_layer(inplanes)
        self.act1 = act_layer(inplace=True)
        self.maxpool = _stem_pool(inplanes, replace_stem_pool, act_layer, norm_layer, aa_layer)
        stages, features = make_blocks(
            block,
            (64, 128, 256, 512),
            layers,
            inplanes,
            reduce_first=block_reduce_first,
            output_stride=output_stride,
            down_kernel_size=down_kernel_size,
            avg_down=avg_down,
            drop_block_rate=drop_block_rate,
            drop_path_rate=drop_path_rate,
            cardinality=cardinality,
            base_width=base_width,
            act_layer=act_layer,
            norm_layer=norm_layer,
            aa_layer=aa_layer,
            **(block_args or {}),
        )
        self.feature_info: list[dict[str, int | str]] = [
            {"num_chs": inplanes, "reduction": 2, "module": "act1"},
            *features,
        ]
        self.layer1, self.layer2, self.layer3, self.layer4 = (stage for _, stage in stages)
        self.num_features = 512 * block.expansion
        self.reset_classifier(num_classes, global_pool)
        self.init_weights(zero_init_last_bn)

    def init_weights(self, zero_init_last_bn: bool = True) -> None:
        """Draw the convolutions anew (normal, arXiv:1502.01852, by their outputs); normalisations are the identity.

        Arguments:
            zero_init_last_bn: the last normalisation of each block gives 0 instead.
        """
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
        for module in self.modules():
            if zero_init_last_bn and isinstance(module, _Block):
                module.zero_init_last_bn()

    def get_classifier(self) -> nn.Module:
        """Return the last layer."""
        return self.fc

    def reset_classifier(self, num_classes: int, global_pool: str = "avg") -> None:
        """Replace the last layer by a new one; arguments and errors of :func:`create_classifier`."""
        self.num_classes = num_classes
        self.global_pool, self.fc = create_classifier(self.num_features, num_classes, global_pool)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, in_chans, H, W]`` to ``[B, num_features, H / output_stride, W / output_stride]``, rounded up."""
        x = self.maxpool(self.act1(self.bn1(self.conv1(x))))
        output: torch.Tensor = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return output

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, in_chans, H, W]`` to ``[B, num_classes]``, or ``[B, num_features]`` where there are no classes."""
        x = self.global_pool(self.forward_features(x)).flatten(1)
        output: torch.Tensor = self.fc(F.dropout(x, self.drop_rate, self.training))
        return output


def resnet18() -> ResNet:
    """Return the network of 18 layers: 11,689,512 parameters, 1000 classes."""
    return ResNet(BasicBlock, [2, 2, 2, 2])


def _stem(stem_type: str, stem_width: int, in_chans: int, act_layer: Layer, norm_layer: Layer) -> nn.Module:
    """Return the convolutions of the stem, which stride by 2."""
    if "deep" not in stem_type:
        return nn.Conv2d(in_chans, 64, 7, stride=2, padding=3, bias=False)
    first = 3 * (stem_width // 4) if "tiered" in stem_type else stem_width
    return nn.Sequential(
        nn.Conv2d(in_chans, first, 3, stride=2, padding=1, bias=False),
        norm_layer(first),
        act_layer(inplace=True),
        nn.Conv2d(first, stem_width, 3, padding=1, bias=False),
        norm_layer(stem_width),
        act_layer(inplace=True),
        nn.Conv2d(stem_width, 2 * stem_width, 3, padding=1, bias=False),
    )


def _stem_pool(
    channels: int, replace_stem_pool: bool, act_layer: Layer, norm_layer: Layer, aa_layer: Layer | None
) -> nn.Module:
    """Return what follows the convolutions of the stem and strides by 2."""
    stride = 2 if aa_layer is None else 1
    strides = [] if aa_layer is None else [aa_layer(channels=channels, stride=2)]
    if replace_stem_pool:
        conv = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        return nn.Sequential(conv, *strides, norm_layer(channels), act_layer(inplace=True))
    pool = nn.MaxPool2d(3, stride=stride, padding=1)
    return nn.Sequential(pool, *strides) if strides else pool
