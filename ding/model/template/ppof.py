"""The network of the compact PPO of :mod:`ding.policy.ppof`."""

from typing import Any

import torch
from easydict import EasyDict
from torch import nn

from ding.config.errors import ModelConfigError
from ding.model.common.encoder import encode
from ding.model.common.head import PopArtVHead, layer_stack
from ding.model.common.shapes import Observation
from ding.model.template.vac import RELU, VAC
from ding.utils.nested import Tree


class DiscretePolicyHead(nn.Module):
    """Logits as a plain tensor. State: ``main.0`` hidden layers, ``main.1.0`` output layer."""

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.main = layer_stack(hidden_size, hidden_size, output_size, layer_num, activation, norm_type, noise=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map features ``[B, hidden_size]`` to logits ``[B, output_size]``."""
        output: torch.Tensor = self.main(x)
        return output


def _popart_head(width: int, output_size: int, layer_num: int, hidden_size: int, **options: Any) -> PopArtVHead:
    """Return a head with PopArt, whose hidden layers are as wide as the features."""
    return PopArtVHead(width, output_size, layer_num, **options)


class PPOFModel(VAC):
    """:class:`VAC` with outputs as trees (dicts with attribute access), and optionally PopArt for the value.

    State: that of ``VAC``, with ``main`` in the place of ``Q`` in the heads of discrete actions, and a ``PopArtVHead``
    as ``critic_head`` with ``popart_head``.

    Arguments:
        popart_head: normalise the value by PopArt (arXiv:1809.04474).

    Raises:
        ModelConfigError: ``action_shape`` has several discrete actions.
    """

    _discrete_head_cls = DiscretePolicyHead

    def __init__(self, *args: Any, popart_head: bool = False, **kwargs: Any) -> None:
        if popart_head:
            self._critic_head_cls = _popart_head
        super().__init__(*args, **kwargs)
        if self.multi_head:
            raise ModelConfigError(
                "policy.model.action_shape: PPOF has one discrete action, expected an int; policy 'ppo' takes several"
            )

    def compute_actor(self, x: Observation) -> Tree:
        """Observation ``[B, *obs_shape]`` to logits ``[B, N]``, or a tree with ``mu`` and ``sigma`` ``[B, D]``, or with
        ``action_type`` and ``action_args`` of a hybrid action.
        """
        return as_tree(super().compute_actor(x)["logit"])

    def compute_critic(self, x: Observation) -> EasyDict:
        """Observation to ``pred`` ``[B]``, and ``unnormalized_pred`` with PopArt."""
        observation, _ = self._split(x)
        return EasyDict(self.critic_head(encode(observation, self.critic[0])))

    def compute_actor_critic(self, x: Observation) -> EasyDict:
        """Observation to ``logit`` and ``value`` (``pred`` of the critic)."""
        output = super().compute_actor_critic(x)
        return EasyDict(logit=as_tree(output["logit"]), value=output["value"])


def as_tree(value: Any) -> Tree:
    """Return a dict with attribute access; anything else as it is."""
    return EasyDict(value) if isinstance(value, dict) else value
