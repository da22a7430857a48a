"""SQL: soft Q-learning (Haarnoja et al. 2017, arXiv:1702.08165), for discrete actions."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import EnvBatch, batched
from ding.model import model_wrap
from ding.policy._learning.q_values import QLoss, of_action, one_head
from ding.policy.dqn import DQNPolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("sql")
class SQLPolicy(DQNPolicy):
    """Soft Q-learning; the rest is as in :class:`DQNPolicy`. Collects by drawing from ``softmax(Q / alpha)``."""

    config = {
        "type": "sql",
        # (float) Temperature of the soft value and of exploration.
        "learn": {"alpha": 0.1},
    }

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """``mean (Q(s, a) - R)^2`` with ``R = r + discount alpha log sum_a exp(Q'(s', a) / alpha)``."""
        alpha = self._cfg.learn.alpha
        q = one_head(self._model(batch["obs"])["logit"])
        with torch.no_grad():
            next_q = self._target_model.forward(batch["next_obs"])["logit"]
            soft_value = alpha * (next_q / alpha).logsumexp(-1)
            target = batch["reward"] + batch["discount"] * batch["not_done"] * soft_value
        td_error = of_action(q, batch["action"]) - target
        loss = (batch["weight"] * td_error.square()).mean()
        return QLoss(loss, self._priorities(td_error), {"record_value_function": soft_value.mean()})

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "record_value_function"]

    def _init_collect(self) -> None:
        super()._init_collect()
        self._collect_model = model_wrap(
            self._model,
            wrapper_name="eps_greedy_multinomial_sample",
            reference_numerics=self._reference_numerics,
        )
        self._collect_model.reset()

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """Actions drawn from ``softmax(Q / alpha)``, or with chance ``eps`` random ones."""
        return self._act(self._collect_model, data, eps=eps, alpha=self._cfg.learn.alpha)
