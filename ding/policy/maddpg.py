"""MADDPG: agents that act by what they see, with critics that see everything (Lowe et al. 2017, arXiv:1706.02275)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.critics import q_values
from ding.policy.ddpg import DDPGPolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("maddpg")
class MADDPGPolicy(DDPGPolicy):
    """Multi-agent deep deterministic policy gradient: the critic of agent i reads the global state and the actions of
    all agents, ``Q_i(s, a_1 .. a_A)``, the actor its own observation alone.

    The agents share their networks. Observations have ``agent_state`` ``[B, A, ...]`` and ``global_state``, rewards are
    ``[B]``, or ``[B, A]`` for each agent its own. The rest is as in :class:`~ding.policy.ddpg.DDPGPolicy`.
    """

    config = {
        "type": "maddpg",
        "multi_agent": True,
        "learn": {
            "discount_factor": 0.95,
            "target_theta": 0.01,
            "learning_rate_actor": 1e-2,
            "learning_rate_critic": 1e-2,
            "batch_size": 1024,
        },
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``joint_maqac`` of :mod:`ding.model.template.maqac`."""
        return "joint_maqac", ["ding.model.template.maqac"]

    def _actor_loss(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """``-mean_i Q_i(s, a_1 .. mu(o_i) .. a_A)`` by the first critic, others' actions from the data: 0-d."""
        obs, shown = batch["obs"], batch["action"]
        action = self._model(obs, mode="compute_actor")["action"].reshape(shown.shape)
        return -q_values(self._model, obs, action=action, others=shown)[0].mean()
