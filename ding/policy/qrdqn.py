"""QR-DQN: Q-learning of quantiles of the return (Dabney et al. 2018, arXiv:1710.10044)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.q_values import QLoss, greedy, mean_of, row_of_action
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import quantile_huber_loss
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("qrdqn")
class QRDQNPolicy(DQNPolicy):
    """Quantile regression; the rest is as in :class:`DQNPolicy`. Priorities are the losses of the samples."""

    config = {"type": "qrdqn"}

    def default_model(self) -> tuple[str, list[str]]:
        """``qrdqn`` of :mod:`ding.model.template.q_learning`."""
        return "qrdqn", ["ding.model.template.q_learning"]

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """Quantile regression of ``theta(s, a)`` to ``r + discount theta'(s', argmax_a mean theta(s', a))``."""
        output = self._model(batch["obs"])
        with torch.no_grad():
            following = self._target_model.forward(batch["next_obs"])
            best = greedy(self._model(batch["next_obs"])["logit"], batch["next_action_mask"])
            next_quantiles = row_of_action(following["q"], best)
            discount = batch["discount"] * batch["not_done"]
            target = batch["reward"].unsqueeze(-1) + discount.unsqueeze(-1) * next_quantiles
        quantiles = row_of_action(output["q"], batch["action"])
        pairs = quantile_huber_loss(quantiles, target, output["tau"].squeeze(-1))
        error = pairs.sum(-1).mean(-1)
        loss = (batch["weight"] * error).mean()
        numbers = {"q_value": mean_of(output["logit"]), "target_q_value": mean_of(following["logit"])}
        return QLoss(loss, error.detach(), numbers)
