"""Encoders: observations to feature vectors. The parts live in small private modules; this is their public address."""

from ding.model.common._conv_encoder import ConvEncoder
from ding.model.common._dict_encoder import DictEncoder
from ding.model.common._fc_encoder import FCEncoder
from ding.model.common._impala_encoder import IMPALACnnDownStack, IMPALACnnResidualBlock, IMPALAConvEncoder
from ding.model.common._time_encoder import GaussianFourierProjectionTimeEncoder

__all__ = [
    "ConvEncoder",
    "DictEncoder",
    "FCEncoder",
    "GaussianFourierProjectionTimeEncoder",
    "IMPALACnnDownStack",
    "IMPALACnnResidualBlock",
    "IMPALAConvEncoder",
]
