"""Conservative Q-learning from data sets (Kumar et al. 2020, arXiv:2006.04779)."""

from collections.abc import Mapping
from typing import Any

from ding.policy._q_loss import Network, QLoss, double_q_values
from ding.policy.qrdqn import QRDQNPolicy
from ding.rl_utils import qrdqn_nstep_td_data, qrdqn_nstep_td_error
from ding.utils import POLICY_REGISTRY


def discrete_cql_loss(
    network: Network,
    target_network: Network,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    min_q_weight: float,
) -> QLoss:
    """Quantile regression of n-step returns plus ``min_q_weight (logsumexp_a Q(s, a) - Q(s, a_data))``, where Q is the
    mean of the quantiles: actions that the data do not show are not overestimated.

    Args:
        network, target_network, batch: as for :func:`ding.policy.qrdqn.qrdqn_loss`.
    """
    output = network(batch["obs"])
    target, next_action = double_q_values(network, target_network, batch)
    data = qrdqn_nstep_td_data(
        output["q"], target["q"], batch["action"], next_action, batch["reward"], batch["done"], output["tau"],
        batch["weight"],
    )  # fmt: skip
    loss, error = qrdqn_nstep_td_error(data, gamma, nstep, batch.get("value_gamma"))
    values = output["q"].mean(-1)
    shown = values.gather(1, batch["action"].unsqueeze(1)).mean()
    gap = values.logsumexp(-1).mean() - shown
    numbers = {"q_target": target["q"].mean(), "q_value": output["q"].detach().mean()}
    return QLoss(loss + min_q_weight * gap, error.detach(), numbers)


@POLICY_REGISTRY.register("discrete_cql")
class DiscreteCQLPolicy(QRDQNPolicy):
    """Conservative Q-learning of quantiles, for discrete actions; the rest is as in :class:`QRDQNPolicy`."""

    config = {
        "type": "discrete_cql",
        "learn": {
            # (int) Updates per collection, where it does not learn from a data set.
            "update_per_collect": 1,
            # (float) Weight of the conservative term.
            "min_q_weight": 1.0,
        },
    }

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        weight = self._cfg.learn.min_q_weight
        return discrete_cql_loss(self._model, self._target_model.forward, batch, self._gamma, self._nstep, weight)

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "q_target", "q_value"]
