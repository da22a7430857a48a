"""An actor with Q functions and a value function of states: implicit Q-learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from ding.model.common.head import RegressionHead
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template._qac_parts import ActionShape, each_value, on_hidden, run_head, state_action
from ding.model.template.qac import ContinuousQAC
from ding.utils import MODEL_REGISTRY

SILU = nn.SiLU()


@MODEL_REGISTRY.register("continuous_qvac")
class ContinuousQVAC(ContinuousQAC):
    """:class:`ContinuousQAC` with a value function of states.

    State: that of :class:`ContinuousQAC`, with ``critic_q_head.*`` in place of ``critic_head.*``, and
    ``critic_v_head.*``; the same again as ``actor.0.*``, ``actor.1.*``, ``critic.0.*`` (encoder), ``critic.1.*`` and
    ``critic.2.*``.

    Arguments: those of :class:`ContinuousQAC`; the value function has the sizes of a critic.
    """

    mode: ClassVar[list[str]] = ["compute_actor", "compute_critic", "compute_value"]

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
        activation: nn.Module | None = SILU,
        norm_type: str | None = None,
        encoder_hidden_size_list: Sequence[int] | None = None,
        share_encoder: bool = False,
    ) -> None:
        super().__init__(
            obs_shape, action_shape, action_space, twin_critic, actor_head_hidden_size, actor_head_layer_num,
            critic_head_hidden_size, critic_head_layer_num, activation, norm_type, encoder_hidden_size_list,
            share_encoder,
        )  # fmt: skip
        options: dict[str, Any] = {"activation": activation, "norm_type": norm_type}
        head = RegressionHead(critic_head_hidden_size, 1, critic_head_layer_num, **options)
        self.critic_q_head = self.critic_head
        del self.critic_head
        self.critic_v_head = on_hidden(self.feature_width, critic_head_hidden_size, activation, head)
        self.critic = nn.ModuleList([self.critic_encoder, self.critic_q_head, self.critic_v_head])

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs as those of :meth:`ContinuousQAC.compute_critic` to ``q_value`` ``[B]``, or a list of two, and
        ``v_value`` ``[B]``.
        """
        features = self.critic_encoder(inputs["obs"])
        q_value = each_value(self.critic_q_head, state_action(features, inputs), "pred")
        return {"q_value": q_value, "v_value": run_head(self.critic_v_head, features)["pred"]}

    def compute_value(self, obs: Observation) -> dict[str, Any]:
        """Map observations ``[B, *obs_shape]`` to ``v_value`` ``[B]``."""
        return {"v_value": run_head(self.critic_v_head, self.critic_encoder(obs))["pred"]}
