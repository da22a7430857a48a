"""Residual networks of images: parameter names and numbers of DI-engine, shapes, and what is refused."""

import math

import pytest
import torch
from torch import nn

from ding.torch_utils import ResNet, resnet18
from ding.torch_utils.network.resnet import (
    AvgPool2dSame,
    BasicBlock,
    Bottleneck,
    ClassifierHead,
    create_attn,
    create_classifier,
    downsample_avg,
    downsample_conv,
    drop_blocks,
    get_padding,
    get_same_padding,
    make_blocks,
    pad_same,
    to_2tuple,
)


def wave(shape, phase):
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


class Stride(nn.Module):
    """An `aa_layer`."""

    def __init__(self, channels, stride):
        super().__init__()
        self.pool = nn.AvgPool2d(stride, ceil_mode=True)

    def forward(self, x):
        return self.pool(x)


def small(block=BasicBlock, **kwargs):
    return ResNet(block, [1, 1, 1, 1], **{"num_classes": 3, **kwargs})


@pytest.mark.parametrize(
    ("make", "shape", "sums"),
    [
        (lambda: BasicBlock(4, 8, 2, downsample_conv(4, 8, 1, 2)), (2, 8, 3, 3), (6.63702, 0.156105)),
        (
            lambda: BasicBlock(4, 4, reduce_first=2, dilation=2, first_dilation=1),
            (2, 4, 5, 5),
            (60.2728, 26.0791),
        ),
        (
            lambda: Bottleneck(4, 4, 2, downsample_avg(4, 16, 1, 2), cardinality=2, base_width=32),
            (2, 16, 3, 3),
            (5.3427, 0.148896),
        ),
        (
            lambda: Bottleneck(4, 4, 2, downsample_avg(4, 16, 1, 2), aa_layer=Stride, base_width=128),
            (2, 16, 3, 3),
            (10.7941, 0.127312),
        ),
        (lambda: downsample_avg(4, 2, 1, 2), (2, 2, 3, 3), (7.27154, -0.142187)),
        (lambda: downsample_avg(4, 2, 1, 1, 2), (2, 2, 5, 5), (20.0613, 0.331572)),
        (lambda: downsample_conv(4, 2, 3, 2, 2), (2, 2, 3, 3), (6.6092, -0.158105)),
        (lambda: AvgPool2dSame(2), (2, 4, 3, 3), (0.287648, -0.494794)),
    ],
)
@torch.no_grad()
def test_numbers_of_the_parts(make, shape, sums):
    """Sums over an output, plain and weighted, with known weights."""
    part = make().eval()
    for number, parameter in enumerate(part.parameters()):
        parameter.copy_(0.3 * wave(parameter.shape, number))
    y = part(wave((2, 4, 5, 5), 0))
    assert y.shape == shape
    assert [y.sum().item(), (y * wave(shape, 1)).sum().item()] == pytest.approx(sums, rel=1e-4)


def layer_names(conv, bn):
    return [f"{conv}.weight", *(f"{bn}.{key}" for key in list(nn.BatchNorm2d(1).state_dict()))]


def block_names(prefix, depth, downsample):
    names = [name for i in range(1, depth + 1) for name in layer_names(f"{prefix}.conv{i}", f"{prefix}.bn{i}")]
    return names + (layer_names(f"{prefix}.downsample.0", f"{prefix}.downsample.1") if downsample else [])


def test_parameter_names_of_resnet18():
    with torch.device("meta"):
        net = resnet18()
    names = layer_names("conv1", "bn1")
    for stage in range(1, 5):
        for index in range(2):
            names += block_names(f"layer{stage}.{index}", 2, downsample=stage > 1 and index == 0)
    assert list(net.state_dict()) == [*names, "fc.weight", "fc.bias"]
    assert sum(parameter.numel() for parameter in net.parameters()) == 11_689_512


def test_parameter_names_of_bottlenecks_and_deep_stems():
    with torch.device("meta"):
        net = small(Bottleneck, stem_type="deep_tiered", stem_width=32, avg_down=True)
    shapes = {name: tuple(value.shape) for name, value in net.state_dict().items()}
    assert [shapes[f"conv1.{i}.weight"][:2] for i in (0, 3, 6)] == [(24, 3), (32, 24), (64, 32)]
    prefix = [name for name in shapes if name.startswith("layer1.")]
    renamed = [name.replace("downsample.1", "downsample.2").replace("downsample.0", "downsample.1")
               for name in block_names("layer1.0", 3, downsample=True)]  # fmt: skip
    assert prefix == renamed
    assert shapes["layer4.0.conv3.weight"] == (2048, 512, 1, 1)
    assert shapes["fc.weight"] == (3, 2048)


@pytest.mark.parametrize(
    ("kwargs", "size"),
    [
        ({}, 2),
        ({"output_stride": 16}, 3),
        ({"output_stride": 8, "down_kernel_size": 3}, 5),
        ({"output_stride": 8, "avg_down": True}, 5),
        ({"replace_stem_pool": True, "in_chans": 1}, 2),
        ({"aa_layer": Stride, "replace_stem_pool": True}, 2),
        ({"aa_layer": Stride, "drop_rate": 0.5}, 2),
    ],
)
@torch.no_grad()
def test_shapes(kwargs, size):
    net = small(**kwargs).eval()
    x = wave((2, kwargs.get("in_chans", 3), 40, 40), 0)
    features = net.forward_features(x)
    assert features.shape == (2, 512, size, size)
    assert torch.allclose(net(x), net.get_classifier()(features.mean(dim=(2, 3))), atol=1e-5)
    assert net.feature_info[-1] == {"num_chs": 512, "reduction": kwargs.get("output_stride", 32), "module": "layer4"}


@torch.no_grad()
def test_blocks_begin_as_their_skip_paths():
    net = small(zero_init_last_bn=True)
    x = wave((1, 64, 4, 4), 0).abs()
    assert torch.equal(net.layer1(x), x)
    assert not torch.equal(small(zero_init_last_bn=False).layer1(x), x)


def test_the_classifier_is_replaced():
    net = small()
    net.reset_classifier(5)
    assert (net.num_classes, net.get_classifier().out_features) == (5, 5)
    net.reset_classifier(0)
    assert net(wave((2, 3, 32, 32), 0)).shape == (2, 512)
    assert ClassifierHead(4, 3)(wave((2, 4, 5, 5), 0)).shape == (2, 3)


@torch.no_grad()
def test_functions_between_the_layers_of_a_block():
    x = wave((1, 4, 3, 3), 0).abs()
    nothing = torch.zeros_like
    assert torch.equal(BasicBlock(4, 4, drop_path=nothing)(x), x)
    assert torch.equal(BasicBlock(4, 4, drop_block=nothing)(x), x)


def test_small_functions():
    assert [get_padding(*args) for args in [(3, 1), (7, 2), (3, 1, 2), (1, 1)]] == [1, 3, 2, 0]
    assert [get_same_padding(*args) for args in [(7, 3, 2, 1), (8, 3, 2, 1), (5, 3, 1, 2)]] == [2, 1, 4]
    padded = pad_same(torch.ones(1, 1, 2, 3), (2, 3), (1, 1), value=7.0)
    assert padded[0, 0].tolist() == [[7, 1, 1, 1, 7], [7, 1, 1, 1, 7], [7, 7, 7, 7, 7]]
    assert (to_2tuple(3), to_2tuple((3, 4))) == ((3, 3), (3, 4))
    assert (create_attn(None, 3), drop_blocks()) == (None, [None] * 4)
    stages, features = make_blocks(BasicBlock, [8, 16], [1, 2], 8)
    assert [(name, len(blocks)) for name, blocks in stages] == [("layer1", 1), ("layer2", 2)]
    assert [feature["reduction"] for feature in features] == [4, 8]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: small(output_stride=4), r"output_stride must be one of \(8, 16, 32\), got 4"),
        (lambda: small(drop_block_rate=0.1), "drop_block_rate must be 0, got 0.1"),
        (lambda: small(base_width=32), "BasicBlock needs cardinality=1 and base_width=64, got 1 groups and 32"),
        (lambda: BasicBlock(4, 4, cardinality=2), "BasicBlock needs cardinality=1"),
        (lambda: create_classifier(4, 3, "max"), "pool_type must be 'avg'"),
    ],
)
def test_what_is_refused(make, sentence):
    with torch.device("meta"), pytest.raises(AssertionError, match=sentence):
        make()
