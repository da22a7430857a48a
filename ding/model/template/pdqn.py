"""The network of parametrised deep Q-learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import encode
from ding.model.common.head import DiscreteHead, DuelingHead, RegressionHead
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template._qac_parts import RELU, ActionShape, ActorCriticModes, hybrid_widths
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES, make_encoder
from ding.utils import MODEL_REGISTRY

# Input of an action type in place of the arguments of other types.
_ABSENT = -2.0


@MODEL_REGISTRY.register("pdqn")
class PDQN(ActorCriticModes):
    """Arguments in ``[-1, 1]`` for each type of action, and a Q value per type given the arguments (P-DQN,
    arXiv:1810.06394).

    State: ``dis_encoder``, ``cont_encoder``, ``cont_head``, ``dis_head``; the same again as ``actor_head.0`` (of the
    types), ``actor_head.1`` (of the arguments), ``encoder.0`` and ``encoder.1``. A file of DI-engine, where both
    run on ``cont_encoder``, loads to the same outputs.

    Arguments:
        obs_shape: an int or ``(n,)`` for vectors, ``(C, H, W)`` for images.
        action_shape: ``{'action_type_shape': K, 'action_args_shape': M}``.
        dueling: whether the Q values come from a dueling head.
        head_hidden_size: width of the heads; that of the features, and checked to be so when given.
        multi_pass: give each type its own arguments only, one pass per type (arXiv:1905.04388).
        action_mask: ``[K, M]``, 1 where an argument belongs to a type; for ``multi_pass``.

    Raises:
        TypeError: ``action_shape`` without its two parts.
        ValueError: sizes that do not fit each other.
    """

    mode = ["compute_discrete", "compute_continuous"]
    owned: torch.Tensor | None

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        dueling: bool = True,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        multi_pass: bool = False,
        action_mask: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        types, args = hybrid_widths(action_shape)
        width = encoder_hidden_size_list[-1]
        if head_hidden_size not in (None, width):
            raise ValueError(
                f"head_hidden_size must equal the last entry of encoder_hidden_size_list ({width}), which the heads "
                f"read; got {head_hidden_size}"
            )
        self.action_shape, self.multi_pass = action_shape, multi_pass
        owned = _ownership(action_mask, types, args) if multi_pass else None
        # Not in the state dict: the constructor arguments say all about it.
        self.register_buffer("owned", owned, persistent=False)
        self.dis_encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        self.cont_encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        options: dict[str, Any] = {"layer_num": head_layer_num, "activation": activation, "norm_type": norm_type}
        self.cont_head = RegressionHead(width, args, final_tanh=True, **options)
        self.dis_head = (DuelingHead if dueling else DiscreteHead)(width + args, types, **options)
        self.actor_head = nn.ModuleList([self.dis_head, self.cont_head])
        self.encoder = nn.ModuleList([self.dis_encoder, self.cont_encoder])

    def compute_continuous(self, inputs: Observation) -> dict[str, Any]:
        """Map observations ``[B, *obs_shape]`` to ``action_args`` ``[B, M]``."""
        pred = self.cont_head(encode(inputs, self.encoder[1]))["pred"]
        return {"action_args": pred if pred.ndim == 2 else pred.unsqueeze(-1)}

    def compute_discrete(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``state`` ``[B, *obs_shape]`` and ``action_args`` ``[B, M]`` to ``logit`` ``[B, K]``, and ``action_args``."""
        features, args = encode(inputs["state"], self.encoder[0]), inputs["action_args"]
        if self.owned is None:
            logit = self.dis_head(torch.cat([features, args], dim=-1))["logit"]
        else:
            seen = torch.where(self.owned, args.unsqueeze(1), _ABSENT)
            rows = features.unsqueeze(1).expand(-1, len(self.owned), -1)
            logit = self.dis_head(torch.cat([rows, seen], dim=-1))["logit"].diagonal(dim1=1, dim2=2)
        return {"logit": logit, "action_args": args}


def _ownership(action_mask: Sequence[Sequence[int]] | None, types: int, args: int) -> torch.Tensor:
    if action_mask is None:
        raise ValueError("multi_pass=True needs action_mask, which arguments belong to which type of action")
    mask = torch.as_tensor(action_mask)
    if mask.shape != (types, args):
        raise ValueError(f"action_mask must be [types={types}, arguments={args}], got {tuple(mask.shape)}")
    return mask != 0
