"""The networks of phasic policy gradient: a policy with a value head, and a critic of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import encode
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES, split_observation
from ding.model.template.vac import RELU, VAC, ActionShape, unknown_mode
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("ppg")
class PPG(nn.Module):
    """Phasic policy gradient (PPG, arXiv:2009.04416): ``actor_critic``, a ``VAC`` whose value head shapes its features,
    and ``aux_critic``, the encoder and the head of a separate critic.

    Arguments as in ``VAC``.
    """

    mode = ["compute_actor", "compute_critic", "compute_actor_critic"]

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "discrete",
        share_encoder: bool = True,
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 2,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        impala_cnn_encoder: bool = False,
    ) -> None:
        super().__init__()

        def make() -> VAC:
            return VAC(
                obs_shape,
                action_shape,
                action_space,
                share_encoder,
                encoder_hidden_size_list,
                actor_head_hidden_size,
                actor_head_layer_num,
                critic_head_hidden_size,
                critic_head_layer_num,
                activation,
                norm_type,
                impala_cnn_encoder=impala_cnn_encoder,
            )

        self.actor_critic = make()
        self.aux_critic = make().critic

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
        """``logit`` of the policy, see :meth:`VAC.compute_actor`."""
        output: dict[str, Any] = self.actor_critic(x, mode="compute_actor")
        return output

    def compute_critic(self, x: Observation) -> dict[str, torch.Tensor]:
        """Observation ``[B, *obs_shape]`` to ``value`` ``[B]`` of the separate critic."""
        observation, _ = split_observation(x, self.aux_critic[0], type(self).__name__)
        return {"value": self.aux_critic[1](encode(observation, self.aux_critic[0]))["pred"]}

    def compute_actor_critic(self, x: Observation) -> dict[str, Any]:
        """``logit`` of the policy, and ``value`` ``[B]`` of its own value head."""
        output: dict[str, Any] = self.actor_critic(x, mode="compute_actor_critic")
        return output
