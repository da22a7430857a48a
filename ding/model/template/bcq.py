"""The network of batch-constrained Q-learning."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from ding.model.common.shapes import ObsShape
from ding.model.template._qac_parts import RELU, ActorCriticModes, action_width, vector_width
from ding.model.template.vae import VanillaVAE
from ding.utils import MODEL_REGISTRY

_LATENT_BOUND = 0.5
_CANDIDATES = 100


def _mlp(width: int, hidden: Sequence[int], out: int, activation: nn.Module) -> nn.Sequential:
    widths = [width, *hidden]
    layers = [part for pair in itertools.pairwise(widths) for part in (nn.Linear(*pair), activation)]
    return nn.Sequential(*layers, nn.Linear(widths[-1], out))


@MODEL_REGISTRY.register("bcq")
class BCQ(ActorCriticModes):
    """Two Q functions, a model of the actions of the data, and a small perturbation of these (Fujimoto et al. 2019,
    arXiv:1812.02900).

    State: ``critic.0.*``, ``critic.1.*``, ``actor.*``, ``vae.*``. The perturbation has an output for each dimension of
    the action; DI-engine's has a single output for all.

    Arguments:
        obs_shape: an int or ``(n,)``.
        action_shape: number of dimensions of the action, in ``[-1, 1]``.
        actor_head_hidden_size, critic_head_hidden_size: widths of the hidden layers.
        vae_hidden_dims: two equal widths.
        phi: limit of the perturbation.
    """

    mode: ClassVar[list[str]] = ["compute_actor", "compute_critic", "compute_vae", "compute_eval"]

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        actor_head_hidden_size: Sequence[int] = (400, 300),
        critic_head_hidden_size: Sequence[int] = (400, 300),
        activation: nn.Module = RELU,
        vae_hidden_dims: Sequence[int] = (750, 750),
        phi: float = 0.05,
    ) -> None:
        super().__init__()
        obs, self.action_shape, self.phi = vector_width(obs_shape), action_width(action_shape), phi
        both = obs + self.action_shape
        self.critic = nn.ModuleList(_mlp(both, critic_head_hidden_size, 1, activation) for _ in range(2))
        self.actor = _mlp(both, actor_head_hidden_size, self.action_shape, activation)
        self.vae = VanillaVAE(self.action_shape, obs, 2 * self.action_shape, vae_hidden_dims)

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` ``[B, n]`` and ``action`` ``[B, N]`` to ``q_value``: a list of two ``[B]``."""
        rows = torch.cat([inputs["obs"], inputs["action"]], -1)
        return {"q_value": [critic(rows).squeeze(-1) for critic in self.critic]}

    def compute_actor(self, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """``obs`` ``[B, n]`` and ``action`` ``[B, N]`` to ``action`` ``[B, N]``, changed by ``phi`` at most."""
        change = self.phi * torch.tanh(self.actor(torch.cat([inputs["obs"], inputs["action"]], -1)))
        return {"action": (inputs["action"] + change).clamp(-1, 1)}

    def compute_vae(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` and ``action`` to what :meth:`VanillaVAE.forward` gives."""
        output: dict[str, Any] = self.vae(inputs)
        return output

    def draw(self, obs: torch.Tensor) -> torch.Tensor:
        """Return an action of the data's kind for each observation ``[B, n]``: ``[B, N]``."""
        z = torch.randn((len(obs), self.vae.latent_size), device=obs.device).clamp(-_LATENT_BOUND, _LATENT_BOUND)
        return self.vae.decode_with_obs(z, obs)["reconstruction_action"]

    def compute_eval(self, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """``obs`` ``[B, n]`` to ``action`` ``[B, N]``: the best of 100 candidates by the first critic."""
        obs = inputs["obs"]
        repeated = obs.repeat_interleave(_CANDIDATES, 0)
        candidates = self.compute_actor({"obs": repeated, "action": self.draw(repeated)})["action"]
        value = self.compute_critic({"obs": repeated, "action": candidates})["q_value"][0]
        best = value.reshape(len(obs), _CANDIDATES).argmax(1)
        return {"action": candidates.reshape(len(obs), _CANDIDATES, -1)[torch.arange(len(obs)), best]}
