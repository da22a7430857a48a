"""The networks of ACER: a policy, and values of all actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import encode
from ding.model.common.head import RegressionHead
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES, make_encoder, split_observation
from ding.model.template.vac import RELU, actor_output, head_width, make_actor_head, unknown_mode
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("acer")
class ACER(nn.Module):
    """A policy over discrete actions and their values (ACER, arXiv:1611.01224), each with an encoder of its own.

    State: ``actor_encoder``, ``critic_encoder``, ``critic_head``, ``actor_head``; the same again as ``actor.0``,
    ``actor.1``, ``critic.0`` and ``critic.1``. Arguments as in ``VAC``; both heads are as wide as the features.

    Raises:
        ValueError: a head is given another width.
    """

    mode = ["compute_actor", "compute_critic"]

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int,
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int | None = None,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        sizes = encoder_hidden_size_list
        actor_width = head_width("actor_head_hidden_size", actor_head_hidden_size, sizes)
        critic_width = head_width("critic_head_hidden_size", critic_head_hidden_size, sizes)
        self.actor_encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        self.critic_encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        self.critic_head = RegressionHead(
            critic_width, action_shape, critic_head_layer_num, activation=activation, norm_type=norm_type
        )
        self.actor_head = make_actor_head(
            "discrete", action_shape, actor_width, actor_head_layer_num, activation, norm_type
        )
        self.actor = nn.ModuleList([self.actor_encoder, self.actor_head])
        self.critic = nn.ModuleList([self.critic_encoder, self.critic_head])

    def forward(self, x: Observation, mode: str) -> dict[str, Any]:
        """Run the method that ``mode`` names.

        Raises:
            ValueError: there is no such mode.
        """
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        output: dict[str, Any] = getattr(self, mode)(x)
        return output

    def compute_actor(self, x: Observation) -> dict[str, Any]:
        """Observation ``[B, *obs_shape]`` (or ``{'observation', 'action_mask'}``) to ``logit`` ``[B, N]``."""
        observation, action_mask = split_observation(x, self.actor_encoder, type(self).__name__)
        return actor_output(self.actor_head, encode(observation, self.actor_encoder), action_mask)

    def compute_critic(self, x: Observation) -> dict[str, torch.Tensor]:
        """Observation to ``q_value`` ``[B, N]`` (``[B]`` for one action)."""
        observation, _ = split_observation(x, self.critic_encoder, type(self).__name__)
        return {"q_value": self.critic_head(encode(observation, self.critic_encoder))["pred"]}
