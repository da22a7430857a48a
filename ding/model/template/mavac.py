"""The network of actor-critic algorithms for several agents with one critic."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import encode
from ding.model.common.head import RegressionHead
from ding.model.common.shapes import as_shape, squeezed
from ding.model.template.q_model import ACTION_MASK
from ding.model.template.vac import RELU, ActionShape, actor_output, make_actor_head, unknown_mode
from ding.utils import MODEL_REGISTRY

# Finite, so that differences of the logits of forbidden actions are numbers.
_FORBIDDEN = -99999999.0


@MODEL_REGISTRY.register("mavac")
class MAVAC(nn.Module):
    """A policy that all agents share, over what each sees, and a value of the global state (MAPPO, arXiv:2103.01955).

    State: ``actor_encoder``, ``critic_encoder``, ``critic_head``, ``actor_head``; the same again as ``actor.0``,
    ``actor.1``, ``critic.0`` and ``critic.1``.

    Arguments:
        agent_obs_shape, global_obs_shape: features of what an agent sees, and of the global state.
        action_shape: as for :class:`ding.model.VAC`.
        agent_num: number of agents.
        encoder: a pair of modules to use as the encoders of actor and critic.

    Raises:
        ValueError: shapes of several axes, or an unknown action space.
    """

    mode = ["compute_actor", "compute_critic", "compute_actor_critic"]

    def __init__(
        self,
        agent_obs_shape: int | Sequence[int],
        global_obs_shape: int | Sequence[int],
        action_shape: ActionShape,
        agent_num: int,
        actor_head_hidden_size: int = 256,
        actor_head_layer_num: int = 2,
        critic_head_hidden_size: int = 512,
        critic_head_layer_num: int = 1,
        action_space: str = "discrete",
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        sigma_type: str = "independent",
        bound_type: str | None = None,
        encoder: Sequence[nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.agent_num, self.action_space, self.action_shape = agent_num, action_space, squeezed(action_shape)
        if encoder is None:
            self.actor_encoder: nn.Module = _layer(agent_obs_shape, actor_head_hidden_size, activation)
            self.critic_encoder: nn.Module = _layer(global_obs_shape, critic_head_hidden_size, activation)
        else:
            self.actor_encoder, self.critic_encoder = encoder
        self.critic_head = RegressionHead(
            critic_head_hidden_size, 1, critic_head_layer_num, activation=activation, norm_type=norm_type
        )
        self.actor_head = make_actor_head(
            action_space,
            action_shape,
            actor_head_hidden_size,
            actor_head_layer_num,
            activation,
            norm_type,
            sigma_type,
            bound_type=bound_type,
        )
        self.actor = nn.ModuleList([self.actor_encoder, self.actor_head])
        self.critic = nn.ModuleList([self.critic_encoder, self.critic_head])

    def forward(self, x: Mapping[str, torch.Tensor], mode: str) -> dict[str, Any]:
        """Run the method that ``mode`` names.

        Raises:
            ValueError: there is no such mode.
        """
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        output: dict[str, Any] = getattr(self, mode)(x)
        return output

    def compute_actor(self, x: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """``agent_state`` ``[B, agents, features]`` and, for discrete actions, ``action_mask`` ``[B, agents, N]`` (0:
        forbidden) to ``logit`` ``[B, agents, N]``, or ``{'mu', 'sigma'}`` ``[B, agents, D]``.
        """
        return self._acted_by_head(encode(x["agent_state"], self.actor_encoder), x)

    def _acted_by_head(self, features: torch.Tensor, x: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        output = actor_output(self.actor_head, features)
        logit = output["logit"]
        if ACTION_MASK in x and isinstance(logit, torch.Tensor):
            output["logit"] = logit.masked_fill(x[ACTION_MASK] == 0, _FORBIDDEN)
        return output

    def compute_critic(self, x: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """``global_state`` ``[B, agents, features]`` (or ``[B, features]``) to ``value`` ``[B, agents]`` (``[B]``)."""
        return {"value": self.critic_head(encode(x["global_state"], self.critic_encoder))["pred"]}

    def compute_actor_critic(self, x: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """Return the outputs of both."""
        return {**self.compute_actor(x), **self.compute_critic(x)}


def _layer(features: int | Sequence[int], width: int, activation: nn.Module | None) -> nn.Sequential:
    size = as_shape(features, "obs_shape")
    if not isinstance(size, int):
        raise ValueError(f"MAVAC takes vector observations, got obs_shape={features!r}")
    return nn.Sequential(nn.Linear(size, width), nn.ReLU() if activation is None else activation)
