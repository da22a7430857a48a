"""An actor with Q functions and a value function of states: implicit Q-learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from ding.model.common.head import RegressionHead
from ding.model.common.shapes import ObsShape
from ding.model.template._qac_parts import RELU, on_hidden, run_head, vector_width
from ding.model.template.qac import ContinuousQAC
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("continuous_qvac")
class ContinuousQVAC(ContinuousQAC):
    """:class:`ContinuousQAC` over vectors, and a value function.

    State: that of :class:`ContinuousQAC`, and ``value_head.*``.

    Arguments: those of :class:`ContinuousQAC`; the value function has the sizes of a critic.
    """

    mode: ClassVar[list[str]] = ["compute_actor", "compute_critic", "compute_value"]

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        action_space: str = "reparameterization",
        twin_critic: bool = True,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__(
            obs_shape, action_shape, action_space, twin_critic, actor_head_hidden_size, actor_head_layer_num,
            critic_head_hidden_size, critic_head_layer_num, activation, norm_type,
        )  # fmt: skip
        head = RegressionHead(
            critic_head_hidden_size, 1, critic_head_layer_num, activation=activation, norm_type=norm_type
        )
        self.value_head = on_hidden(vector_width(obs_shape), critic_head_hidden_size, activation, head)

    def compute_value(self, obs: torch.Tensor) -> dict[str, Any]:
        """Observations ``[B, n]`` to ``v_value`` ``[B]``."""
        return {"v_value": run_head(self.value_head, obs)["pred"]}
