"""Munchausen DQN: the log-policy is added to the reward (Vieillard et al. 2020, arXiv:2007.14430)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.optimization import clipping_adam
from ding.policy._q_loss import Network, QLoss, mean_values
from ding.policy.dqn import DQNPolicy
from ding.policy.errors import PolicyUsageError
from ding.rl_utils import m_q_1step_td_data, m_q_1step_td_error
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY


def mdqn_loss(
    network: Network, target_network: Network, batch: Mapping[str, Any], gamma: float, tau: float, alpha: float
) -> QLoss:
    """Squared error to one-step soft returns with ``alpha`` times the clipped log-policy beside the reward.

    Args:
        network, target_network: observations to ``logit`` ``[B, actions]``.
        batch: as for :func:`ding.policy._q_loss.dqn_loss`; ``reward`` ``[1, B]``.
        tau: temperature of the policy.
        alpha: weight of its logarithm.
    """
    q = network(batch["obs"])["logit"]
    with torch.no_grad():
        target_q, next_q = target_network(batch["obs"])["logit"], target_network(batch["next_obs"])["logit"]
    data = m_q_1step_td_data(
        q, target_q, next_q, batch["action"], batch["reward"].squeeze(0), batch["done"], batch["weight"]
    )
    loss, error, action_gap, clipped = m_q_1step_td_error(data, gamma, tau, alpha)
    return QLoss(
        loss, error.detach(), {**mean_values(q, next_q), "action_gap": action_gap, "clip_frac": clipped.mean()}
    )


@POLICY_REGISTRY.register("mdqn")
class MDQNPolicy(DQNPolicy):
    """Munchausen Q-learning with one-step returns; the rest is as in :class:`DQNPolicy`."""

    config = {
        "type": "mdqn",
        # (float) Temperature of the policy, and weight of its logarithm.
        "entropy_tau": 0.03,
        "m_alpha": 0.9,
        "collect": {"n_sample": 4},
    }

    def _init_learn(self) -> None:
        super()._init_learn()
        if self._nstep != 1:
            raise PolicyUsageError(f"policy.nstep: Munchausen DQN learns one-step returns, found {self._nstep}")

    def _make_optimizer(self) -> Adam:
        return clipping_adam(self._model.parameters(), self._cfg.learn, eps=0.0003125)

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        tau, alpha = self._cfg.entropy_tau, self._cfg.m_alpha
        return mdqn_loss(self._model, self._target_model.forward, batch, self._gamma, tau, alpha)

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "action_gap", "clip_frac"]
