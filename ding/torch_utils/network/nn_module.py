"""Building blocks of networks. The parts live in small private modules; this is their public address."""

from ding.torch_utils.network._blocks import (
    MLP,
    conv1d_block,
    conv2d_block,
    deconv2d_block,
    fc_block,
    sequential_pack,
)
from ding.torch_utils.network._encode import (
    BilinearUpsample,
    NearestUpsample,
    binary_encode,
    normed_conv2d,
    normed_linear,
    one_hot,
)
from ding.torch_utils.network._noise import NoiseLinearLayer, noise_block

__all__ = [
    "MLP",
    "BilinearUpsample",
    "NearestUpsample",
    "NoiseLinearLayer",
    "binary_encode",
    "conv1d_block",
    "conv2d_block",
    "deconv2d_block",
    "fc_block",
    "noise_block",
    "normed_conv2d",
    "normed_linear",
    "one_hot",
    "sequential_pack",
]
