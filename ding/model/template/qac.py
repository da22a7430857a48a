"""Actors with Q functions: DDPG, TD3, SAC and their relatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from easydict import EasyDict
from torch import nn

from ding.model.common.head import DiscreteHead, RegressionHead
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template._qac_parts import (
    RELU,
    ActionShape,
    ActorCriticModes,
    action_width,
    actor_output,
    continuous_actor,
    each_value,
    hybrid_widths,
    on_hidden,
    qac_encoders,
    run_head,
    state_action,
    twins,
)
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("continuous_qac")
class ContinuousQAC(ActorCriticModes):
    """A policy over continuous actions in ``[-1, 1]`` and one Q function of state and action, or two.

    State: ``actor_head.*``, ``critic_head.*`` (``critic_head.0.*`` and ``critic_head.1.*`` for two), and for images
    and dicts ``actor_encoder.*``, ``critic_encoder.*``; the same again as ``actor.0.*``, ``actor.1.*``, ``critic.0.*``,
    ``critic.1.*``.

    Arguments:
        obs_shape: an int or ``(n,)`` for vectors, ``(C, H, W)`` for images, a mapping of names to those for dicts.
        action_shape: number of dimensions of the action; ``{'action_type_shape', 'action_args_shape'}`` for a hybrid.
        action_space: ``regression`` (a deterministic action), ``reparameterization`` (mean and deviation of a normal
            distribution, to be squashed by tanh) or ``hybrid`` (logits of the type, and deterministic arguments).
        twin_critic: whether there are two Q functions.
        encoder_hidden_size_list: channels of the convolutions over images; widths of the layers over a dict.
        share_encoder: whether actor and critic read the same features of images and dicts.

    Raises:
        ValueError: an unknown action space, or an encoder that does not fit the observations.
        TypeError: a hybrid ``action_shape`` without its two parts.
        RuntimeError: ``obs_shape`` has neither one nor three axes, and is no mapping.
    """

    mode = ["compute_actor", "compute_critic", "compute_first_critic"]

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str,
        twin_critic: bool = False,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        encoder_hidden_size_list: Sequence[int] | None = None,
        share_encoder: bool = False,
    ) -> None:
        super().__init__()
        self.obs_shape, self.action_shape, self.action_space = obs_shape, action_shape, action_space
        self.twin_critic, self.share_encoder = twin_critic, share_encoder
        self.actor_encoder, self.critic_encoder, width = qac_encoders(
            obs_shape, encoder_hidden_size_list, share_encoder, activation, norm_type
        )
        self.feature_width = width
        actor_options = (actor_head_hidden_size, actor_head_layer_num, activation, norm_type)
        if action_space == "hybrid":
            types, args = hybrid_widths(action_shape)
            self.action_shape = EasyDict(action_type_shape=types, action_args_shape=args)
            head = DiscreteHead(actor_head_hidden_size, types, actor_head_layer_num, activation, norm_type)
            self.actor_head: nn.Module = nn.ModuleList(
                [
                    on_hidden(width, actor_head_hidden_size, activation, head),
                    continuous_actor(width, args, "regression", *actor_options),
                ]
            )
            critic_width = width + types + args
        else:
            shape: Any = action_shape
            self.actor_head = continuous_actor(width, shape, action_space, *actor_options)
            critic_width = width + action_width(shape)

        def critic() -> nn.Module:
            head = RegressionHead(
                critic_head_hidden_size, 1, critic_head_layer_num, activation=activation, norm_type=norm_type
            )
            return on_hidden(critic_width, critic_head_hidden_size, activation, head)

        self.critic_head = twins(critic, twin_critic)
        self.actor = nn.ModuleList([self.actor_encoder, self.actor_head])
        self.critic = nn.ModuleList([self.critic_encoder, self.critic_head])

    def compute_actor(self, obs: Observation) -> dict[str, Any]:
        """Map observations ``[B, *obs_shape]`` to ``action`` ``[B, N]`` (``[B]`` for N = 1); to ``logit``, the list of
        ``mu`` and ``sigma`` ``[B, N]``; or for a hybrid to ``logit`` ``[B, types]`` and ``action_args`` ``[B, M]``.
        """
        features = self.actor_encoder(obs)
        if isinstance(self.actor_head, nn.ModuleList):
            types, args = self.actor_head
            # Not by ``len``, which would fix the number of rows of an exported network.
            action_args = actor_output(args, features)["action"].reshape(features.shape[0], -1)
            return {"logit": run_head(types, features)["logit"], "action_args": action_args}
        return actor_output(self.actor_head, features)

    def compute_first_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """:meth:`compute_critic` with the values ``[B]`` of the first Q function only."""
        first = self.critic_head[0] if isinstance(self.critic_head, nn.ModuleList) else self.critic_head
        features = self.critic_encoder(inputs["obs"])
        return {"q_value": each_value(first, state_action(features, inputs), "pred")}

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` and ``action`` (for a hybrid a dict with ``action_args``, and ``logit`` of the types) to ``q_value``
        ``[B]``, or a list of two.
        """
        features = self.critic_encoder(inputs["obs"])
        return {"q_value": each_value(self.critic_head, state_action(features, inputs), "pred")}


@MODEL_REGISTRY.register("discrete_qac")
class DiscreteQAC(ActorCriticModes):
    """A policy over discrete actions and one Q function with a value per action, or two.

    State and arguments as those of :class:`ContinuousQAC`; ``action_shape`` is the number of actions.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        twin_critic: bool = False,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        encoder_hidden_size_list: Sequence[int] | None = None,
        share_encoder: bool = False,
    ) -> None:
        super().__init__()
        self.obs_shape, self.twin_critic, self.share_encoder = obs_shape, twin_critic, share_encoder
        self.actor_encoder, self.critic_encoder, width = qac_encoders(
            obs_shape, encoder_hidden_size_list, share_encoder, activation, norm_type
        )
        count = action_width(action_shape)

        def make(hidden_size: int, layer_num: int) -> nn.Module:
            head = DiscreteHead(hidden_size, count, layer_num, activation, norm_type)
            return on_hidden(width, hidden_size, activation, head)

        self.actor_head = make(actor_head_hidden_size, actor_head_layer_num)
        self.critic_head = twins(lambda: make(critic_head_hidden_size, critic_head_layer_num), twin_critic)
        self.actor = nn.ModuleList([self.actor_encoder, self.actor_head])
        self.critic = nn.ModuleList([self.critic_encoder, self.critic_head])

    def compute_actor(self, obs: Observation) -> dict[str, Any]:
        """Map observations ``[B, *obs_shape]`` to ``logit`` ``[B, N]``."""
        return {"logit": run_head(self.actor_head, self.actor_encoder(obs))["logit"]}

    def compute_critic(self, obs: Observation) -> dict[str, Any]:
        """Map observations (or a dict that holds them under ``obs``) to ``q_value`` ``[B, N]``, or a list of two."""
        own = isinstance(self.obs_shape, Mapping) and self.obs_shape.keys() <= obs.keys()  # type: ignore[union-attr]
        obs = obs["obs"] if isinstance(obs, Mapping) and not own else obs
        return {"q_value": each_value(self.critic_head, self.critic_encoder(obs), "logit")}
