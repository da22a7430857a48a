"""BDQ: Q-learning for several branches of discrete actions (Tavakoli et al. 2018, arXiv:1711.08946)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.q_values import QLoss, mean_of, of_action
from ding.policy.dqn import DQNPolicy
from ding.utils import POLICY_REGISTRY


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
        """``mean_d (Q_d(s, a_d) - R_d)^2`` with ``R_d = r + discount Q'_d(s', argmax_a Q_d(s', a))`` in each branch."""
        q = self._branches(self._model(batch["obs"]))
        with torch.no_grad():
            next_q = self._branches(self._target_model.forward(batch["next_obs"]))
            best = self._branches(self._model(batch["next_obs"])).argmax(-1)
            target = batch["reward"] + batch["discount"] * batch["not_done"] * of_action(next_q, best)
        action = batch["action"].reshape(-1, len(q)).t()
        td_error = of_action(q, action) - target
        loss = (batch["weight"] * td_error.square()).mean()
        numbers = {f"q_value_b_{branch}": mean_of(values) for branch, values in enumerate(q)}
        return QLoss(
            loss, self._priorities(td_error), {"q_value": mean_of(q), "target_q_value": mean_of(next_q), **numbers}
        )

    def _branches(self, output: Mapping[str, Any]) -> torch.Tensor:
        """Values with the branch in front, ``[branches, B, bins]``."""
        result: torch.Tensor = output["logit"].transpose(0, 1)
        return result

    def _monitor_vars_learn(self) -> list[str]:
        branches = [f"q_value_b_{i}" for i in range(self._cfg.model.num_branches)]
        return [*super()._monitor_vars_learn(), *branches]
