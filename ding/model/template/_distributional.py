"""Networks of distributional Q learning."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ding.model.common.head import DistributionHead, FQFHead, QRDQNHead, QuantileHead, RainbowHead
from ding.model.common.shapes import ObsShape
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES, QModel, make_encoder, make_head
from ding.utils import MODEL_REGISTRY

RELU = nn.ReLU()


class _CategoricalQModel(QModel):
    """A Q model with a categorical head, which the subclass names."""

    head_cls: type[nn.Module]

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        v_min: float | None = -10,
        v_max: float | None = 10,
        n_atom: int | None = 51,
        impala_width: int | None = None,
    ) -> None:
        super().__init__()
        self.encoder = make_encoder(
            obs_shape, encoder_hidden_size_list, activation, norm_type, impala_width=impala_width
        )
        self.head = make_head(
            self.head_cls,
            action_shape,
            encoder_hidden_size_list,
            head_hidden_size,
            layer_num=head_layer_num,
            n_atom=n_atom,
            v_min=v_min,
            v_max=v_max,
            activation=activation,
            norm_type=norm_type,
        )


@MODEL_REGISTRY.register("c51dqn")
class C51DQN(_CategoricalQModel):
    """A categorical distribution of the return per action (C51, arXiv:1707.06887).

    ``forward`` returns ``logit`` ``[B, N]`` (means) and ``distribution`` ``[B, N, n_atom]``.

    Arguments:
        n_atom, v_min, v_max: Number of atoms, typically 51, and the range of returns they span. Other arguments as in
            ``DQN``.
    """

    head_cls = DistributionHead


@MODEL_REGISTRY.register("rainbowdqn")
class RainbowDQN(_CategoricalQModel):
    """``C51DQN`` with a noisy dueling head (Rainbow, arXiv:1710.02298)."""

    head_cls = RainbowHead


@MODEL_REGISTRY.register("qrdqn")
class QRDQN(QModel):
    """Quantiles of the return per action at fixed fractions (QR-DQN, arXiv:1710.10044).

    ``forward`` returns ``logit`` ``[B, N]``, ``q`` ``[B, N, M]`` and ``tau`` ``[B, M, 1]``.

    Arguments:
        num_quantiles: the number of fractions, M. Others as in ``DQN``.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        num_quantiles: int = 32,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        self.head = make_head(
            QRDQNHead,
            action_shape,
            encoder_hidden_size_list,
            head_hidden_size,
            layer_num=head_layer_num,
            num_quantiles=num_quantiles,
            activation=activation,
            norm_type=norm_type,
        )


class _ImplicitQuantileModel(QModel):
    """A Q model over embedded fractions; the subclass names the head."""

    head_cls: type[nn.Module]

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        num_quantiles: int = 32,
        quantile_embedding_size: int = 128,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        self.head = make_head(
            self.head_cls,
            action_shape,
            encoder_hidden_size_list,
            head_hidden_size,
            layer_num=head_layer_num,
            num_quantiles=num_quantiles,
            quantile_embedding_size=quantile_embedding_size,
            activation=activation,
            norm_type=norm_type,
        )


@MODEL_REGISTRY.register("iqn")
class IQN(_ImplicitQuantileModel):
    """Quantiles of the return per action at random fractions (IQN, arXiv:1806.06923).

    ``forward`` returns ``logit`` ``[B, N]``, ``q`` ``[M, B, N]`` and ``quantiles`` ``[M * B, 1]``.

    Arguments:
        num_quantiles: fractions per row, M.
        quantile_embedding_size: number of cosines that embed a fraction. Others as in ``DQN``.
    """

    head_cls = QuantileHead
    fraction_major_keys = ("q", "quantiles")
    """Output keys whose first axis is not the batch: they must not be split per environment."""


@MODEL_REGISTRY.register("fqf")
class FQF(_ImplicitQuantileModel):
    """Quantiles of the return per action at fractions proposed by a network (FQF, arXiv:1911.02140).

    ``forward`` returns the output of ``FQFHead``, batch-first. The arguments are those of ``IQN``.
    """

    head_cls = FQFHead
