"""Heads by their names in configs."""

from torch import nn

from ding.model.common._head_continuous import EnsembleHead, PopArtVHead, RegressionHead, ReparameterizationHead
from ding.model.common._head_discrete import (
    AttentionPolicyHead,
    BranchingHead,
    DiscreteHead,
    DuelingHead,
    StochasticDuelingHead,
)
from ding.model.common._head_distribution import DistributionHead, QRDQNHead, RainbowHead
from ding.model.common._head_layers import MultiHead
from ding.model.common._head_quantile import FQFHead, QuantileHead

head_cls_map: dict[str, type[nn.Module]] = {
    "discrete": DiscreteHead,
    "dueling": DuelingHead,
    "sdn": StochasticDuelingHead,
    "distribution": DistributionHead,
    "rainbow": RainbowHead,
    "qrdqn": QRDQNHead,
    "quantile": QuantileHead,
    "fqf": FQFHead,
    "branch": BranchingHead,
    "attention_policy": AttentionPolicyHead,
    "regression": RegressionHead,
    "reparameterization": ReparameterizationHead,
    "popart": PopArtVHead,
    "multi": MultiHead,
    "ensemble": EnsembleHead,
}
