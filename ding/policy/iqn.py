"""IQN: Q-learning of quantiles at random fractions (Dabney et al. 2018, arXiv:1806.06923)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import EnvBatch
from ding.policy._learning.q_values import QLoss, greedy, mean_of, row_of_action
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import quantile_huber_loss
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("iqn")
class IQNPolicy(DQNPolicy):
    """Implicit quantiles; the rest is as in :class:`DQNPolicy`. Priorities are the losses of the samples."""

    config = {
        "type": "iqn",
        # (float) Threshold of the Huber loss.
        "learn": {"kappa": 1.0},
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``iqn`` of :mod:`ding.model.template.q_learning`."""
        return "iqn", ["ding.model.template.q_learning"]

    def _act(self, model: Any, data: EnvBatch, **kwargs: Any) -> EnvBatch:
        """As :meth:`DQNPolicy._act`; ``q`` ``[N, quantiles, actions]``, ``quantiles`` ``[N, quantiles]``."""
        output = super()._act(model, data, **kwargs)
        q, quantiles = (output.fields[key] for key in ("q", "quantiles"))
        return output.with_columns(q=q.transpose(0, 1), quantiles=quantiles.reshape(-1, len(data)).t())

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """Quantile regression of ``Z_tau(s, a)`` to ``r + discount Z'_tau'(s', argmax_a E Z(s', a))`` at fractions
        ``tau`` and ``tau'`` that the networks draw.
        """
        output = self._model(batch["obs"])
        with torch.no_grad():
            following = self._target_model.forward(batch["next_obs"])
            best = greedy(self._model(batch["next_obs"])["logit"], batch["next_action_mask"])
            next_quantiles = row_of_action(following["q"].permute(1, 2, 0), best)
            discount = batch["discount"] * batch["not_done"]
            target = batch["reward"].unsqueeze(-1) + discount.unsqueeze(-1) * next_quantiles
        quantiles = row_of_action(output["q"].permute(1, 2, 0), batch["action"])
        tau = output["quantiles"].view(len(output["q"]), -1).t()
        pairs = quantile_huber_loss(quantiles, target, tau, self._cfg.learn.kappa)
        error = pairs.sum(1).mean(-1)
        loss = (batch["weight"] * error).mean()
        numbers = {"q_value": mean_of(output["logit"]), "target_q_value": mean_of(following["logit"])}
        return QLoss(loss, error.detach(), numbers)
