"""An actor with an ensemble of Q functions (EDAC, An et al. 2021, arXiv:2110.01548)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.head import EnsembleHead
from ding.model.common.shapes import ObsShape
from ding.model.template._qac_parts import (
    RELU,
    ActorCriticModes,
    action_width,
    actor_output,
    continuous_actor,
    vector_width,
)
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("edac")
class EDAC(ActorCriticModes):
    """A policy over continuous actions in ``[-1, 1]`` and E Q functions of state and action, computed together.

    State: ``actor.*`` and ``critic.pred.*``.

    Arguments:
        obs_shape: an int or ``(n,)``.
        action_shape: number of dimensions of the action.
        ensemble_num: E.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        ensemble_num: int = 2,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        width, self.ensemble_num = vector_width(obs_shape), ensemble_num
        self.actor = continuous_actor(
            width, action_shape, "reparameterization", actor_head_hidden_size, actor_head_layer_num, activation,
            norm_type,
        )  # fmt: skip
        self.critic = EnsembleHead(
            width + action_width(action_shape), 1, critic_head_hidden_size, critic_head_layer_num, ensemble_num,
            activation, norm_type,
        )  # fmt: skip

    def compute_actor(self, obs: torch.Tensor) -> dict[str, Any]:
        """Map observations ``[B, n]`` to ``logit``: the list of ``mu`` and ``sigma`` ``[B, N]``."""
        return actor_output(self.actor, obs)

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` ``[B, n]`` and ``action`` ``[B, N]`` to ``q_value`` ``[E, B]``; with ``[E, B, n]`` and ``[E, B, N]``
        each member sees rows of its own.
        """
        rows = torch.cat([inputs["obs"], inputs["action"]], dim=-1)
        if rows.ndim == 2:
            rows = rows.expand(self.ensemble_num, *rows.shape)
        batch = rows.shape[1]
        pred = self.critic(rows.transpose(0, 1).reshape(batch, -1, 1))["pred"]
        return {"q_value": pred.reshape(batch, self.ensemble_num).t()}
