"""SQL: soft Q-learning (Haarnoja et al. 2017, arXiv:1702.08165), for discrete actions."""

from collections.abc import Mapping
from typing import Any

from ding.data import EnvBatch, batched
from ding.model import model_wrap
from ding.policy._q_loss import Network, QLoss
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import q_nstep_sql_td_error, q_nstep_td_data
from ding.utils import POLICY_REGISTRY


def sql_loss(
    network: Network, target_network: Network, batch: Mapping[str, Any], gamma: float, nstep: int, alpha: float
) -> QLoss:
    """Squared error to n-step returns with the soft value ``alpha logsumexp(Q' / alpha)`` of the target network.

    Args:
        network, target_network: observations to ``logit`` ``[B, actions]``.
        batch: as for :func:`ding.policy._q_loss.dqn_loss`.
        alpha: temperature.
    """
    target = target_network(batch["next_obs"])["logit"]
    data = q_nstep_td_data(
        network(batch["obs"])["logit"], target, batch["action"], None, batch["reward"], batch["done"], batch["weight"]
    )
    loss, error, value = q_nstep_sql_td_error(data, gamma, alpha, nstep, value_gamma=batch.get("value_gamma"))
    return QLoss(loss, error.detach(), {"record_value_function": value.mean()})


@POLICY_REGISTRY.register("sql")
class SQLPolicy(DQNPolicy):
    """Soft Q-learning; the rest is as in :class:`DQNPolicy`. Collects by drawing from ``softmax(Q / alpha)``."""

    config = {
        "type": "sql",
        # (float) Temperature of the soft value and of exploration.
        "learn": {"alpha": 0.1},
    }

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        alpha = self._cfg.learn.alpha
        return sql_loss(self._model, self._target_model.forward, batch, self._gamma, self._nstep, alpha)

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
