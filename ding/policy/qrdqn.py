"""QR-DQN: Q-learning of quantiles of the return (Dabney et al. 2018, arXiv:1710.10044)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._q_loss import Network, QLoss, double_q_values, mean_values
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import qrdqn_nstep_td_data, qrdqn_nstep_td_error
from ding.utils import POLICY_REGISTRY


def qrdqn_loss(network: Network, target_network: Network, batch: Mapping[str, Any], gamma: float, nstep: int) -> QLoss:
    """Quantile regression of n-step returns.

    Args:
        network, target_network: observations to ``logit`` ``[B, actions]``, ``q`` ``[B, actions, quantiles]`` and their
            fractions ``tau``.
        batch: as for :func:`ding.policy._q_loss.dqn_loss`.
    """
    output = network(batch["obs"])
    target, next_action = double_q_values(network, target_network, batch)
    data = qrdqn_nstep_td_data(
        output["q"], target["q"], batch["action"], next_action, batch["reward"], batch["done"], output["tau"],
        batch["weight"],
    )  # fmt: skip
    loss, error = qrdqn_nstep_td_error(data, gamma, nstep, batch.get("value_gamma"))
    return QLoss(loss, error.detach(), mean_values(output["logit"], target["logit"]))


@POLICY_REGISTRY.register("qrdqn")
class QRDQNPolicy(DQNPolicy):
    """Quantile regression; the rest is as in :class:`DQNPolicy`. Priorities are the losses of the samples."""

    config = {"type": "qrdqn"}

    def default_model(self) -> tuple[str, list[str]]:
        """``qrdqn`` of :mod:`ding.model.template.q_learning`."""
        return "qrdqn", ["ding.model.template.q_learning"]

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        return qrdqn_loss(self._model, self._target_model.forward, batch, self._gamma, self._nstep)

    def _priorities(self, error: torch.Tensor) -> torch.Tensor:
        return error
