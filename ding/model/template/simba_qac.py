"""The residual networks of SimBa for SAC, DDPG and TD3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.head import RegressionHead, ReparameterizationHead
from ding.model.common.shapes import ObsShape
from ding.model.template._qac_parts import (
    ActorCriticModes,
    action_width,
    actor_output,
    each_value,
    state_action,
    twins,
    vector_width,
)
from ding.torch_utils.network.input_dtype import as_input
from ding.torch_utils.network.normalization import RunningNorm
from ding.utils import MODEL_REGISTRY
from ding.utils.names import did_you_mean

_ACTION_SPACES = ("regression", "reparameterization")


class SimbaBlock(nn.Module):
    """``x + W2 relu(W1 norm(x))``, with layer normalisation and a hidden layer that is wider by ``expansion``.

    State: ``norm``, ``layers.0``, ``layers.2``.
    """

    def __init__(self, width: int, expansion: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        linears = nn.Linear(width, width * expansion), nn.Linear(width * expansion, width)
        for linear in linears:
            nn.init.kaiming_normal_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.layers = nn.Sequential(linears[0], nn.ReLU(), linears[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, width]`` in and out."""
        output: torch.Tensor = x + self.layers(self.norm(x))
        return output


def _residual(width: int, hidden_size: int, num_blocks: int, expansion: int) -> list[nn.Module]:
    """Return a linear layer, blocks, and layer normalisation."""
    blocks = [SimbaBlock(hidden_size, expansion) for _ in range(num_blocks)]
    return [_orthogonal(nn.Linear(width, hidden_size)), *blocks, nn.LayerNorm(hidden_size)]


def _orthogonal(linear: nn.Linear) -> nn.Linear:
    nn.init.orthogonal_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


@MODEL_REGISTRY.register("simba_qac")
class SimbaQAC(ActorCriticModes):
    """The networks of SimBa (Lee et al. 2024, arXiv:2410.09754), in the place of ``continuous_qac``: observations are
    normalised by their running statistics, and residual blocks stand between linear layers and a layer normalisation.

    The statistics move when the actor runs in training mode, and actor and critics share them. The paper learns with
    ``learn.optim_type='adamw'``, ``learn.weight_decay=0.01`` and learning rates of 1e-4.

    State: ``obs_norm.*``, ``actor_head.*``, ``critic_head.*`` (``critic_head.0.*`` and ``critic_head.1.*`` for two).

    Arguments:
        obs_shape: an int or ``(n,)``.
        action_shape: number of dimensions of the action.
        action_space: ``regression`` (a deterministic action) or ``reparameterization`` (mean and deviation of a normal
            distribution, to be squashed by tanh).
        twin_critic: whether there are two Q functions.
        actor_head_layer_num, critic_head_layer_num: number of residual blocks; more blocks and wider ones learn better
            in SimBa, where they do not in plain networks.
        expansion: how much wider the hidden layer of a block is.

    Raises:
        ValueError: an unknown action space.
        RuntimeError: ``obs_shape`` has more than one axis.
    """

    mode = ["compute_actor", "compute_critic", "compute_first_critic"]

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        action_space: str,
        twin_critic: bool = False,
        actor_head_hidden_size: int = 128,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 512,
        critic_head_layer_num: int = 2,
        expansion: int = 4,
    ) -> None:
        super().__init__()
        if action_space not in _ACTION_SPACES:
            hint = did_you_mean(str(action_space), _ACTION_SPACES)
            raise ValueError(f"action_space {action_space!r} is none of {_ACTION_SPACES}.{hint}")
        width, size = vector_width(obs_shape), action_width(action_shape)
        self.obs_shape, self.action_shape, self.action_space = obs_shape, action_shape, action_space
        self.twin_critic = twin_critic
        self.obs_norm = RunningNorm(width)
        hidden = actor_head_hidden_size
        if action_space == "regression":
            head: nn.Module = RegressionHead(hidden, size, 0, final_tanh=True)
        else:
            head = ReparameterizationHead(hidden, size, 0, sigma_type="conditioned")
        self.actor_head = nn.Sequential(*_residual(width, hidden, actor_head_layer_num, expansion), head)

        def critic() -> nn.Module:
            body = _residual(width + size, critic_head_hidden_size, critic_head_layer_num, expansion)
            return nn.Sequential(*body, RegressionHead(critic_head_hidden_size, 1, 0))

        self.critic_head = twins(critic, twin_critic)
        self.actor, self.critic = self.actor_head, self.critic_head

    def compute_actor(self, obs: torch.Tensor) -> dict[str, Any]:
        """Observations ``[B, n]`` to ``action`` ``[B, N]`` (``[B]`` for N = 1), or to ``logit``, the list of ``mu`` and
        ``sigma`` ``[B, N]``.
        """
        obs = obs if obs.is_floating_point() else as_input(obs, self.actor_head)
        self.obs_norm.update(obs)
        return actor_output(self.actor_head, self.obs_norm(obs))

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` ``[B, n]`` and ``action`` to ``q_value`` ``[B]``, or a list of two."""
        return self._values(self.critic_head, inputs)

    def compute_first_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """:meth:`compute_critic` with the values ``[B]`` of the first Q function only."""
        return self._values(self.critic_head[0] if self.twin_critic else self.critic_head, inputs)  # type: ignore[index]

    def _values(self, critic: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
        obs = inputs["obs"]
        obs = obs if obs.is_floating_point() else as_input(obs, self.actor_head)
        return {"q_value": each_value(critic, state_action(self.obs_norm(obs), inputs), "pred")}
