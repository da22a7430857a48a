"""An actor with a distribution of the return: D4PG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from ding.model.common.head import DistributionHead
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template._qac_parts import (
    RELU,
    ActorCriticModes,
    action_width,
    actor_output,
    continuous_actor,
    on_hidden,
    run_head,
    state_action,
    vector_width,
)
from ding.utils import MODEL_REGISTRY
from ding.utils.names import did_you_mean


@MODEL_REGISTRY.register("qac_dist")
class QACDIST(ActorCriticModes):
    """A policy over continuous actions in ``[-1, 1]`` and a categorical distribution of the return.

    State: ``actor.*`` and ``critic.*``.

    Arguments:
        obs_shape: an int or ``(n,)``: observations are vectors.
        action_shape: number of dimensions of the action.
        action_space: ``regression`` or ``reparameterization``, see :class:`ding.model.ContinuousQAC`.
        critic_head_type: ``categorical``.
        v_min, v_max, n_atom: the range of the atoms, and their number.

    Raises:
        ValueError: an unknown action space or type of critic.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        action_space: str = "regression",
        critic_head_type: str = "categorical",
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        v_min: float = -10,
        v_max: float = 10,
        n_atom: int = 51,
    ) -> None:
        super().__init__()
        if critic_head_type != "categorical":
            known = did_you_mean(str(critic_head_type), ["categorical"])
            raise ValueError(f"critic_head_type {critic_head_type!r} is unknown.{known}")
        width = vector_width(obs_shape)
        self.action_space = action_space
        self.actor = continuous_actor(
            width, action_shape, action_space, actor_head_hidden_size, actor_head_layer_num, activation, norm_type
        )
        head = DistributionHead(
            critic_head_hidden_size, 1, critic_head_layer_num, n_atom, v_min, v_max, activation, norm_type
        )
        self.critic = on_hidden(width + action_width(action_shape), critic_head_hidden_size, activation, head)

    def compute_actor(self, obs: Observation) -> dict[str, Any]:
        """Map observations ``[B, obs_shape]`` to ``action`` ``[B, N]`` (``[B]`` for N = 1), or ``logit``: the list of
        ``mu`` and ``sigma``.
        """
        return actor_output(self.actor, obs)  # type: ignore[arg-type]

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` and ``action`` to ``q_value`` ``[B, 1]`` (the mean) and ``distribution`` ``[B, 1, n_atom]``."""
        output = run_head(self.critic, state_action(inputs["obs"], inputs))
        return {"q_value": output["logit"], "distribution": output["distribution"]}
