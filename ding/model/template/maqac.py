"""Actors with Q functions for several agents that share their networks: the critics see the global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.head import DiscreteHead, RegressionHead
from ding.model.template._qac_parts import (
    RELU,
    ActorCriticModes,
    action_width,
    actor_output,
    continuous_actor,
    each_value,
    on_hidden,
    run_head,
    state_action,
    twins,
    vector_width,
)
from ding.model.template.q_model import ACTION_MASK
from ding.utils import MODEL_REGISTRY

Shape = int | Sequence[int]


@MODEL_REGISTRY.register("continuous_maqac")
class ContinuousMAQAC(ActorCriticModes):
    """A policy over continuous actions in ``[-1, 1]`` of each of A agents, by its own state, and Q functions of the
    global state and its action.

    State: ``actor.*`` and ``critic.*`` (``critic.0.*`` and ``critic.1.*`` for two critics). Arguments as those of
    :class:`ding.model.ContinuousQAC`.

    Arguments:
        agent_obs_shape, global_obs_shape: entries of the state of an agent, and of the global state.
        action_space: ``regression`` or ``reparameterization``.
    """

    def __init__(
        self,
        agent_obs_shape: Shape,
        global_obs_shape: Shape,
        action_shape: Shape,
        action_space: str,
        twin_critic: bool = False,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.action_space, self.twin_critic = action_space, twin_critic
        options = (actor_head_hidden_size, actor_head_layer_num, activation, norm_type)
        self.actor = continuous_actor(vector_width(agent_obs_shape), action_shape, action_space, *options)
        width = vector_width(global_obs_shape) + action_width(action_shape)

        def critic() -> nn.Module:
            head = RegressionHead(
                critic_head_hidden_size, 1, critic_head_layer_num, activation=activation, norm_type=norm_type
            )
            return on_hidden(width, critic_head_hidden_size, activation, head)

        self.critic = twins(critic, twin_critic)

    def compute_actor(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a dict with ``agent_state`` ``[B, A, agent_obs_shape]`` (or one that has it under ``obs``) to
        ``action`` ``[B, A, N]``, or to ``logit``: the list of ``mu`` and ``sigma``.
        """
        seen = _observation(inputs)["agent_state"]
        output = actor_output(self.actor, seen)
        action = output.get("action")
        if action is not None and action.ndim < seen.ndim:
            output["action"] = action.unsqueeze(-1)
        return output

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` with ``global_state`` ``[B, A, global_obs_shape]``, and ``action`` ``[B, A, N]``, to ``q_value``
        ``[B, A]``, or a list of two.
        """
        x = state_action(inputs["obs"]["global_state"], inputs)
        return {"q_value": each_value(self.critic, x, "pred")}


@MODEL_REGISTRY.register("joint_maqac")
class JointMAQAC(ContinuousMAQAC):
    """:class:`ContinuousMAQAC` whose Q functions read the actions of all A agents, and which agent they are of (Lowe et
    al. 2017, arXiv:1706.02275).

    Arguments:
        agent_num: A.
    """

    _others: torch.Tensor
    _which: torch.Tensor

    def __init__(
        self,
        agent_num: int,
        agent_obs_shape: Shape,
        global_obs_shape: Shape,
        action_shape: Shape,
        action_space: str,
        twin_critic: bool = False,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        # The action of the agent itself is beside this state.
        width = vector_width(global_obs_shape) + (agent_num - 1) * action_width(action_shape) + agent_num
        super().__init__(
            agent_obs_shape, width, action_shape, action_space, twin_critic, actor_head_hidden_size,
            actor_head_layer_num, critic_head_hidden_size, critic_head_layer_num, activation, norm_type,
        )  # fmt: skip
        self.agent_num = agent_num
        agents = torch.arange(agent_num)
        others = (agents.unsqueeze(1) + torch.arange(1, agent_num)) % agent_num
        self.register_buffer("_others", others, persistent=False)
        self.register_buffer("_which", torch.eye(agent_num), persistent=False)

    @property
    def actor_head(self) -> nn.Module:
        """The actor, whose output layer is initialised with ``learn.init_w``."""
        return self.actor

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` with ``global_state`` ``[B, global_obs_shape]`` or ``[B, A, global_obs_shape]``, and ``action`` ``[B,
        A, N]`` to ``q_value`` ``[B, A]``, or a list of two. With ``others`` ``[B, A, N]``, an agent's own action is of
        ``action``, and those of the other agents are of ``others``.
        """
        action, state = inputs["action"], inputs["obs"]["global_state"]
        action = action if action.ndim == 3 else action.unsqueeze(-1)
        shown = inputs.get("others", action)
        batch = action.shape[0]
        state = state if state.ndim == 3 else state.unsqueeze(1).expand(-1, self.agent_num, -1)
        which = self._which.expand(batch, -1, -1)
        others = shown.reshape(action.shape)[:, self._others].flatten(2)
        x = torch.cat([state, which.to(state.dtype), action, others], -1)
        return {"q_value": each_value(self.critic, x, "pred")}


@MODEL_REGISTRY.register("discrete_maqac")
class DiscreteMAQAC(ActorCriticModes):
    """:class:`ContinuousMAQAC` for discrete actions: Q functions with a value per action."""

    def __init__(
        self,
        agent_obs_shape: Shape,
        global_obs_shape: Shape,
        action_shape: Shape,
        twin_critic: bool = False,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.twin_critic = twin_critic
        count = action_width(action_shape)

        def make(width: int, hidden_size: int, layer_num: int) -> nn.Module:
            head = DiscreteHead(hidden_size, count, layer_num, activation, norm_type)
            return on_hidden(width, hidden_size, activation, head)

        self.actor = make(vector_width(agent_obs_shape), actor_head_hidden_size, actor_head_layer_num)
        self.critic = twins(
            lambda: make(vector_width(global_obs_shape), critic_head_hidden_size, critic_head_layer_num), twin_critic
        )

    def compute_actor(self, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Return a dict with ``agent_state`` ``[B, A, agent_obs_shape]`` and optional ``action_mask`` ``[B, A, N]`` (or
        one that has them under ``obs``) to ``logit`` ``[B, A, N]``, and the mask.
        """
        obs = _observation(inputs)
        output = {"logit": run_head(self.actor, obs["agent_state"])["logit"]}
        return {**output, ACTION_MASK: obs[ACTION_MASK]} if ACTION_MASK in obs else output

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a dict with ``global_state`` ``[B, A, global_obs_shape]`` (or one that has it under ``obs``) to
        ``q_value`` ``[B, A, N]``, or a list of two.
        """
        return {"q_value": each_value(self.critic, _observation(inputs)["global_state"], "logit")}


def _observation(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    output: Mapping[str, Any] = inputs.get("obs", inputs)
    return output
