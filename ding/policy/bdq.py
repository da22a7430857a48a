"""BDQ: Q-learning for several branches of discrete actions (Tavakoli et al. 2018, arXiv:1711.08946)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._q_loss import Network, QLoss, mean_values
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import bdq_nstep_td_error, q_nstep_td_data
from ding.utils import POLICY_REGISTRY


def bdq_loss(
    network: Network, target_network: Network, batch: Mapping[str, Any], gamma: float, nstep: int = 1
) -> QLoss:
    """Double Q-learning in each branch; the error of a sample is the mean over its branches.

    Args:
        network, target_network: observations to ``logit`` ``[B, branches, bins]``.
        batch: as for :func:`ding.policy._q_loss.dqn_loss`; ``action`` int64 ``[B, branches]`` (``[B]`` for one branch).
    """
    q = network(batch["obs"])["logit"]
    with torch.no_grad():
        target_q = target_network(batch["next_obs"])["logit"]
        next_action = network(batch["next_obs"])["logit"].argmax(-1)
    action = batch["action"].reshape(next_action.shape)
    data = q_nstep_td_data(q, target_q, action, next_action, batch["reward"], batch["done"], batch["weight"])
    loss, error = bdq_nstep_td_error(data, gamma, nstep, value_gamma=batch.get("value_gamma"))
    branches = {f"q_value_b_{i}": value for i, value in enumerate(q.detach().mean((0, 2)).unbind())}
    return QLoss(loss, error.detach(), {**mean_values(q, target_q), **branches})


@POLICY_REGISTRY.register("bdq")
class BDQPolicy(DQNPolicy):
    """Q-learning with branches: ``model.num_branches`` actions at once, of ``model.action_bins_per_branch`` each.

    The rest is as in :class:`DQNPolicy`; actions are int64 ``[N, branches]``.
    """

    config = {"type": "bdq"}

    def default_model(self) -> tuple[str, list[str]]:
        """``bdq`` of :mod:`ding.model.template.q_learning`."""
        return "bdq", ["ding.model.template.q_learning"]

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        return bdq_loss(self._model, self._target_model.forward, batch, self._gamma, self._nstep)

    def _monitor_vars_learn(self) -> list[str]:
        branches = [f"q_value_b_{i}" for i in range(self._cfg.model.num_branches)]
        return [*super()._monitor_vars_learn(), *branches]
