"""The network of policy-gradient algorithms without a critic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import encode
from ding.model.common.head import DiscreteHead, ReparameterizationHead, independent_normal_dist
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template.q_model import (
    ACTION_MASK,
    DEFAULT_HIDDEN_SIZES,
    make_encoder,
    make_head,
    split_observation,
)
from ding.utils import MODEL_REGISTRY
from ding.utils.names import did_you_mean

RELU = nn.ReLU()


@MODEL_REGISTRY.register("pg")
class PG(nn.Module):
    """A policy over discrete actions, or of independent normals.

    State: ``encoder`` and ``head``.

    Arguments:
        obs_shape: an int or ``(n,)`` for vectors, ``(C, H, W)`` for images, a mapping of names to those for dicts.
        action_shape: number of actions, or of dimensions of a continuous action.
        action_space: ``discrete`` or ``continuous``.
        head_hidden_size: width of the head; that of the features, and checked to be so when given.

    Raises:
        ValueError: an unknown action space, or sizes that do not fit each other.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        action_space: str = "discrete",
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.action_space = action_space
        common: dict[str, Any] = {"layer_num": head_layer_num, "activation": activation, "norm_type": norm_type}
        self.encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        if action_space == "discrete":
            self.head = make_head(DiscreteHead, action_shape, encoder_hidden_size_list, head_hidden_size, **common)
        elif action_space == "continuous":
            self.head = ReparameterizationHead(
                encoder_hidden_size_list[-1],
                action_shape,
                sigma_type="independent",
                hidden_size=head_hidden_size,
                **common,
            )
        else:
            known = ("discrete", "continuous")
            raise ValueError(f"action_space {action_space!r} is unknown.{did_you_mean(str(action_space), known)}")

    def forward(self, x: Observation) -> dict[str, Any]:
        """Observation ``[B, *obs_shape]`` (or ``{'observation', 'action_mask'}``) to ``logit`` ``[B, N]``, or ``{'mu',
        'sigma'}`` ``[B, D]``, and ``dist``, the ``torch.distributions`` object of it (without the mask); and
        ``action_mask``, if there was one.
        """
        observation, action_mask = split_observation(x, self.encoder, type(self).__name__)
        output = self.head(encode(observation, self.encoder))
        logit = output.get("logit", output)
        dist: torch.distributions.Distribution | None = None
        if isinstance(logit, torch.Tensor):
            dist = torch.distributions.Categorical(logits=logit)
        elif isinstance(logit, dict):
            dist = independent_normal_dist(logit)
        result = {"logit": logit, "dist": dist}
        return result if action_mask is None else {**result, ACTION_MASK: action_mask}
