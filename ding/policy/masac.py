"""MASAC: SAC of several agents, with critics that see everything, after MADDPG (Lowe et al. 2017, arXiv:1706.02275) and
SAC (Haarnoja et al. 2018, arXiv:1812.05905).
"""

from typing import Any

import torch

from ding.policy._learning.critics import q_values
from ding.policy.sac import ActorLoss, SACPolicy
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("masac")
class MASACPolicy(SACPolicy):
    """Multi-agent soft actor-critic of continuous actions: the critics of agent i read the global state and the actions
    of all agents, ``Q_i(s, a_1 .. a_A)``, the actor its own observation alone.

    The agents share their networks and one temperature. Observations and rewards are those of
    :class:`~ding.policy.maddpg.MADDPGPolicy`; the rest is as in :class:`~ding.policy.sac.SACPolicy`. For discrete
    actions there is ``discrete_sac`` with ``multi_agent=True``.
    """

    config = {
        "type": "masac",
        "multi_agent": True,
        "transition_with_policy_data": False,
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``joint_maqac`` of :mod:`ding.model.template.maqac`."""
        return "joint_maqac", ["ding.model.template.maqac"]

    def _actor_loss(self, obs: Any, alpha: torch.Tensor) -> ActorLoss:
        """``mean_i (alpha log pi(a_i | o_i) - min_k Q_ki(s, a_1 .. a_A))`` with all actions drawn from the policy; the
        gradient of agent i flows through its own action.
        """
        mu, sigma = self._model(obs, mode="compute_actor")["logit"]
        action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
        q = q_values(self._model, obs, action=action, others=action.detach()).amin(0)
        return ActorLoss((alpha * log_prob - q).mean(), log_prob.detach(), mu.detach(), sigma.detach())
