"""IQN: Q-learning of quantiles at random fractions (Dabney et al. 2018, arXiv:1806.06923)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import EnvBatch
from ding.policy._q_loss import Network, QLoss, double_q_values, mean_values
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import iqn_nstep_td_data, iqn_nstep_td_error
from ding.utils import POLICY_REGISTRY


def iqn_loss(
    network: Network, target_network: Network, batch: Mapping[str, Any], gamma: float, nstep: int, kappa: float
) -> QLoss:
    """Quantile regression of n-step returns at fractions that the networks draw.

    Args:
        network, target_network: observations to ``logit`` ``[B, actions]``, ``q`` ``[quantiles, B, actions]`` and their
            fractions ``quantiles`` ``[quantiles * B, 1]``.
        batch: as for :func:`ding.policy._q_loss.dqn_loss`.
        kappa: threshold of the Huber loss.
    """
    output = network(batch["obs"])
    target, next_action = double_q_values(network, target_network, batch)
    data = iqn_nstep_td_data(
        output["q"], target["q"], batch["action"], next_action, batch["reward"], batch["done"], output["quantiles"],
        batch["weight"],
    )  # fmt: skip
    loss, error = iqn_nstep_td_error(data, gamma, nstep, kappa, batch.get("value_gamma"))
    return QLoss(loss, error.detach(), mean_values(output["logit"], target["logit"]))


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
        columns: Any = super()._act(model, data, **kwargs).columns
        by_env = {"q": columns["q"].transpose(0, 1), "quantiles": columns["quantiles"].reshape(-1, len(data)).t()}
        return EnvBatch.unchecked(data.env_ids, {**columns, **by_env})

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        kappa = self._cfg.learn.kappa
        return iqn_loss(self._model, self._target_model.forward, batch, self._gamma, self._nstep, kappa)

    def _priorities(self, error: torch.Tensor) -> torch.Tensor:
        return error
