"""The network of DQN and its relatives with one value per action."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from ding.model.common.head import BranchingHead, DiscreteHead, DuelingHead, MultiHead
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES, QModel, make_encoder, make_head
from ding.torch_utils.network.nn_module import NoiseLinearLayer
from ding.utils import MODEL_REGISTRY

RELU = nn.ReLU()


@MODEL_REGISTRY.register("dqn")
class DQN(QModel):
    """Q values of discrete actions (DQN, doi:10.1038/nature14236; dueling, arXiv:1511.06581).

    State: ``encoder`` and ``head``, as those classes say.

    Arguments:
        obs_shape: an int or ``(n,)`` for vectors, ``(C, H, W)`` for images, a mapping of names to those for dicts.
        action_shape: number of actions, or a list of numbers for a multi-discrete action space.
        encoder_hidden_size_list: widths of the encoder; the last one is that of the features.
        dueling: ``DuelingHead`` instead of ``DiscreteHead``.
        head_hidden_size: width of the head; that of the features, and checked to be so when given.
        head_layer_num: number of hidden layers of the head.
        norm_type: normalisation of encoder and head, or None.
        dropout: probability of dropout in encoder and head, or None.
        init_bias: start with this value as the bias of the Q values (of V for a dueling head, with A at zero).
        noise: noisy linear layers in the head (arXiv:1706.10295).
        impala_width: encode images by IMPALA's residual stacks (arXiv:1802.01561) of this many times their 16, 32, 32
            channels, and with the last of ``encoder_hidden_size_list`` as number of features; BBF takes 4 and 2048.
            Pixels are taken as they come. None: ``ConvEncoder``.

    Raises:
        RuntimeError: an ``obs_shape`` of two or more than three axes.
        ValueError: sizes that do not fit each other.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        dueling: bool = True,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        dropout: float | None = None,
        init_bias: float | None = None,
        noise: bool = False,
        impala_width: int | None = None,
    ) -> None:
        super().__init__()
        self.encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type, dropout, impala_width)
        self.head = make_head(
            DuelingHead if dueling else DiscreteHead,
            action_shape,
            encoder_hidden_size_list,
            head_hidden_size,
            layer_num=head_layer_num,
            activation=activation,
            norm_type=norm_type,
            dropout=dropout,
            noise=noise,
        )
        if init_bias is not None:
            for head in self.head.pred if isinstance(self.head, MultiHead) else [self.head]:
                _set_output_bias(head, init_bias)


@torch.no_grad()
def _set_output_bias(head: nn.Module, value: float) -> None:
    outputs = [(head.A, 0.0), (head.V, value)] if isinstance(head, DuelingHead) else [(head.Q, value)]
    for stack, start in outputs:
        layer = stack[1][0]  # type: ignore[index]
        bias: torch.Tensor = layer.bias_mu if isinstance(layer, NoiseLinearLayer) else layer.bias  # type: ignore[union-attr]
        bias.fill_(start)


@MODEL_REGISTRY.register("bdq")
class BDQ(QModel):
    """Q values of several branches of discrete actions with one common value (BDQ, arXiv:1711.08946).

    Arguments:
        num_branches: number of branches, positive; or a sequence of this one number, as the shape of an action is.
        action_bins_per_branch: actions per branch.
        layer_num: hidden layers per stream of the head, unless ``a_layer_num`` or ``v_layer_num`` say otherwise.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        num_branches: int | Sequence[int] = 0,
        action_bins_per_branch: int = 2,
        layer_num: int = 3,
        a_layer_num: int | None = None,
        v_layer_num: int | None = None,
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        head_hidden_size: int | None = None,
        norm_type: str | None = None,
        activation: nn.Module | None = RELU,
    ) -> None:
        super().__init__()
        if not isinstance(num_branches, int):
            (num_branches,) = num_branches if len(num_branches) == 1 else (0,)
        if num_branches < 1:
            raise ValueError(f"BDQ needs a positive num_branches, or a sequence of one, got {num_branches!r}")
        self.num_branches = num_branches
        self.encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        self.head = make_head(
            BranchingHead,
            num_branches,
            encoder_hidden_size_list,
            head_hidden_size,
            action_bins_per_branch=action_bins_per_branch,
            layer_num=layer_num,
            a_layer_num=a_layer_num,
            v_layer_num=v_layer_num,
            activation=activation,
            norm_type=norm_type,
        )

    def encode(self, observation: Observation) -> torch.Tensor:
        """Features, divided by the number of streams, whose gradients add up in the encoder."""
        return super().encode(observation) / (self.num_branches + 1)
