"""Network building blocks."""

from ding.torch_utils.network.activation import GLU, Swish, build_activation
from ding.torch_utils.network.gumbel_softmax import GumbelSoftmax
from ding.torch_utils.network.merge import GatingType, SumMerge, VectorMerge
from ding.torch_utils.network.nn_module import (
    MLP,
    BilinearUpsample,
    NearestUpsample,
    NoiseLinearLayer,
    binary_encode,
    conv1d_block,
    conv2d_block,
    deconv2d_block,
    fc_block,
    noise_block,
    normed_conv2d,
    normed_linear,
    one_hot,
    sequential_pack,
)
from ding.torch_utils.network.normalization import build_normalization
from ding.torch_utils.network.popart import PopArt
from ding.torch_utils.network.res_block import ResBlock, ResFCBlock
from ding.torch_utils.network.rnn import GRU, LSTM, PytorchLSTM, get_lstm, is_sequence, sequence_mask
from ding.torch_utils.network.run_layers import run_layers
from ding.torch_utils.network.scatter_connection import ScatterConnection
from ding.torch_utils.network.soft_argmax import SoftArgmax
from ding.torch_utils.network.transformer import ScaledDotProductAttention, Transformer

__all__ = [
    "GLU",
    "GRU",
    "LSTM",
    "MLP",
    "BilinearUpsample",
    "GatingType",
    "GumbelSoftmax",
    "NearestUpsample",
    "NoiseLinearLayer",
    "PopArt",
    "PytorchLSTM",
    "ResBlock",
    "ResFCBlock",
    "ScaledDotProductAttention",
    "ScatterConnection",
    "SoftArgmax",
    "SumMerge",
    "Swish",
    "Transformer",
    "VectorMerge",
    "binary_encode",
    "build_activation",
    "build_normalization",
    "conv1d_block",
    "conv2d_block",
    "deconv2d_block",
    "fc_block",
    "get_lstm",
    "is_sequence",
    "noise_block",
    "normed_conv2d",
    "normed_linear",
    "one_hot",
    "run_layers",
    "sequence_mask",
    "sequential_pack",
]
