"""The networks of behaviour cloning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import ConvEncoder
from ding.model.common.shapes import ObsShape, as_shape
from ding.model.template._dqn import DQN
from ding.model.template._qac_parts import RELU, actor_output, continuous_actor, vector_width
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("discrete_bc")
class DiscreteBC(DQN):
    """A logit for each discrete action. State and arguments are those of :class:`ding.model.DQN`.

    Arguments:
        strides: strides of the convolutions over images.

    Raises:
        RuntimeError: ``strides`` for observations that are no images.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        dueling: bool = True,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        strides: Sequence[int] | None = None,
    ) -> None:
        options = (dueling, head_hidden_size, head_layer_num, activation, norm_type)
        super().__init__(obs_shape, action_shape, encoder_hidden_size_list, *options)
        if strides is not None:
            shape = as_shape(obs_shape, "obs_shape")
            if isinstance(shape, int) or len(shape) != 3:
                raise RuntimeError(f"strides are for images (C, H, W), but obs_shape is {obs_shape!r}")
            self.encoder = ConvEncoder(
                shape, encoder_hidden_size_list, activation=activation, norm_type=norm_type, stride=strides
            )


@MODEL_REGISTRY.register("continuous_bc")
class ContinuousBC(nn.Module):
    """A continuous action, or a normal distribution of it. State: ``actor.0.*``, ``actor.2.*``.

    Arguments:
        obs_shape: an int or ``(n,)``.
        action_shape: number of dimensions of the action.
        action_space: ``regression`` (``action`` in ``[-1, 1]``) or ``reparameterization`` (``logit``: the list of mean
            and deviation).

    Raises:
        ValueError: an unknown ``action_space``, or an action of several axes.
        RuntimeError: an observation of several axes.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        action_space: str,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        sizes = (actor_head_hidden_size, actor_head_layer_num, activation, norm_type)
        self.action_space = action_space
        self.actor = continuous_actor(vector_width(obs_shape), action_shape, action_space, *sizes)

    def forward(self, inputs: torch.Tensor) -> dict[str, Any]:
        """Map observations ``[B, *obs_shape]`` to ``action`` ``[B, N]`` (``[B]`` for N = 1), or ``logit``."""
        return actor_output(self.actor, inputs)
