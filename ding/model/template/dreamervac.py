"""The policy and the value of Dreamer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from ding.model.common.shapes import as_shape
from ding.model.template.vac import unknown_mode
from ding.torch_utils.network.dreamer import ActionDist, ActionHead, DenseHead, Layer, Predicted
from ding.utils import MODEL_REGISTRY
from ding.utils.errors import InvalidArgumentError


@MODEL_REGISTRY.register("dreamervac")
class DREAMERVAC(nn.Module):
    """The policy and the value of Dreamer (Hafner et al. 2023, arXiv:2301.04104), which read features of its world
    model.

    State: ``actor`` (:class:`~ding.torch_utils.network.dreamer.ActionHead`) and ``critic``
    (:class:`~ding.torch_utils.network.dreamer.DenseHead`). The sizes are those of the world model.

    Args:
        action_shape: number of discrete actions, or of dimensions of a continuous one.
        dyn_stoch, dyn_discrete: number of stochastic variables, and of the classes of each; 0 classes: they are normal.
        dyn_deter: size of the recurrent state.
        actor_layers, value_layers, units: number and width of the hidden layers.
        act, norm: activation and norm of the actor, names or classes of ``torch.nn``.
        actor_dist: distribution of actions, see ``ActionHead``: ``normal`` or another continuous one, ``onehot``.
        actor_init_std, actor_min_std, actor_max_std, actor_temp: see ``ActionHead``.
        action_unimix_ratio: share of uniformly random discrete actions.
        reference_numerics: values end at 1.72, as in DI-engine; else at about 4.9e8.

    Raises:
        ValueError: an ``action_shape`` of several axes, or an unknown distribution or layer.
    """

    mode = ["compute_actor", "compute_critic"]

    def __init__(
        self,
        action_shape: int | Sequence[int],
        dyn_stoch: int = 32,
        dyn_deter: int = 512,
        dyn_discrete: int = 32,
        actor_layers: int = 2,
        value_layers: int = 2,
        units: int = 512,
        act: Layer = "SiLU",
        norm: Layer = "LayerNorm",
        actor_dist: str = "normal",
        actor_init_std: float = 1.0,
        actor_min_std: float = 0.1,
        actor_max_std: float = 1.0,
        actor_temp: float = 0.1,
        action_unimix_ratio: float = 0.01,
        reference_numerics: bool = False,
    ) -> None:
        super().__init__()
        size = as_shape(action_shape, "action_shape")
        if not isinstance(size, int):
            raise InvalidArgumentError(f"action_shape must have one axis, got {action_shape!r}")
        self.action_shape = size
        feat = dyn_stoch * (dyn_discrete or 1) + dyn_deter
        self.actor = ActionHead(
            feat,
            size,
            actor_layers,
            units,
            act,
            norm,
            actor_dist,
            actor_init_std,
            actor_min_std,
            actor_max_std,
            actor_temp,
            outscale=1.0,
            unimix_ratio=action_unimix_ratio,
        )
        limit = 1.0 if reference_numerics else 20.0
        self.critic = DenseHead(
            feat, 255, value_layers, units, dist="twohot_symlog", outscale=0.0, low=-limit, high=limit
        )

    def forward(self, x: torch.Tensor, mode: str) -> ActionDist | Predicted:
        """Run the method that ``mode`` names on features ``[..., F]``.

        Raises:
            ValueError: there is no such mode.
        """
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        return self.compute_actor(x) if mode == "compute_actor" else self.compute_critic(x)

    def compute_actor(self, x: torch.Tensor) -> ActionDist:
        """Map features ``[..., F]`` to the distribution of actions ``[..., action_shape]``."""
        output: ActionDist = self.actor(x)
        return output

    def compute_critic(self, x: torch.Tensor) -> Predicted:
        """Map features ``[..., F]`` to the distribution of the value, with a mode ``[..., 1]``."""
        output: Predicted = self.critic(x)
        return output
