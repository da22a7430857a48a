"""Floor 4: networks and the wrappers that turn their outputs into actions."""

from typing import Any

from ding.model.common import (
    AttentionPolicyHead,
    BranchingHead,
    ConvEncoder,
    DictEncoder,
    DiscreteHead,
    DistributionHead,
    DuelingHead,
    EnsembleHead,
    FCEncoder,
    FQFHead,
    GaussianFourierProjectionTimeEncoder,
    IMPALAConvEncoder,
    MultiHead,
    PopArtVHead,
    QRDQNHead,
    QuantileHead,
    RainbowHead,
    RegressionHead,
    ReparameterizationHead,
    StochasticDuelingHead,
    create_model,
    head_cls_map,
    independent_normal_dist,
)
from ding.model.template import BDQ, C51DQN, DQN, DRQN, FQF, IQN, QRDQN, RainbowDQN
from ding.model.wrapper import IModelWrapper, model_wrap, register_wrapper, wrapper_name_map
from ding.utils import absent_name

__all__ = [
    "BDQ",
    "C51DQN",
    "DQN",
    "DRQN",
    "FQF",
    "IQN",
    "QRDQN",
    "AttentionPolicyHead",
    "BranchingHead",
    "ConvEncoder",
    "DictEncoder",
    "DiscreteHead",
    "DistributionHead",
    "DuelingHead",
    "EnsembleHead",
    "FCEncoder",
    "FQFHead",
    "GaussianFourierProjectionTimeEncoder",
    "IMPALAConvEncoder",
    "IModelWrapper",
    "MultiHead",
    "PopArtVHead",
    "QRDQNHead",
    "QuantileHead",
    "RainbowDQN",
    "RainbowHead",
    "RegressionHead",
    "ReparameterizationHead",
    "StochasticDuelingHead",
    "create_model",
    "head_cls_map",
    "independent_normal_dist",
    "model_wrap",
    "register_wrapper",
    "wrapper_name_map",
]


def __getattr__(name: str) -> Any:
    raise absent_name(__name__, name, __all__)
