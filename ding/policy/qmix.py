"""QMIX: a joint value that is monotone in the value of each agent (Rashid et al. 2018, arXiv:1803.11485)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._learning.q_values import greedy
from ding.policy._learning.update import Logs
from ding.policy._samples.joint_sequences import JOINT_Q_CONFIG, JointQPolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("qmix")
class QMIXPolicy(JointQPolicy):
    """Recurrent Q-learning of a joint value, which is mixed from the agents' values with weights made from the global
    state.
    """

    config = {"type": "qmix", **JOINT_Q_CONFIG}

    def default_model(self) -> tuple[str, list[str]]:
        """``qmix`` of :mod:`ding.model.template.qmix`."""
        return "qmix", ["ding.model.template.qmix"]

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, grad_norm``, and per agent ``total_q, target_reward_total_q, target_total_q``.
        """
        return self._learn(data)

    def _loss(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """``mean (Q_tot(s, a) - R)^2`` with ``R = r + discount Q_tot'(s', a')``, where ``Q_tot'`` is the target network
        and ``a'`` is the best action of each agent by its own value (equation 6).
        """
        now, following = self._learner_outputs(batch)
        total_q = now["total_q"]
        with torch.no_grad():
            best = None if following is None else greedy(following["logit"], batch["next_action_mask"])
            next_q = self._next_outputs(self._target_network.forward, batch, best)["total_q"]
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_q
        loss = (batch["weight"] * (total_q - target).square()).mean()
        means = self._per_agent(batch, total_q=total_q, target_reward_total_q=target, target_total_q=next_q)
        return loss, means

    def _make_optimizer(self, network: Any, weight_decay: float = 1e-5) -> torch.optim.Optimizer:
        return super()._make_optimizer(network, weight_decay)
