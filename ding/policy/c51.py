"""C51: Q-learning of the distribution of returns over fixed atoms (Bellemare et al. 2017, arXiv:1707.06887)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._q_loss import Network, QLoss, double_q_values, mean_values
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import dist_nstep_td_data, dist_nstep_td_error
from ding.utils import POLICY_REGISTRY


def c51_loss(
    network: Network,
    target_network: Network,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    v_min: float,
    v_max: float,
    n_atom: int,
) -> QLoss:
    """Cross entropy between the projected target distribution and the predicted one, with n-step returns.

    Args:
        network, target_network: observations to ``logit`` ``[B, actions]`` and ``distribution`` ``[B, actions,
            n_atom]``.
        batch: as for :func:`ding.policy._q_loss.dqn_loss`.
        v_min, v_max, n_atom: the atoms.
    """
    output = network(batch["obs"])
    target, next_action = double_q_values(network, target_network, batch)
    data = dist_nstep_td_data(
        output["distribution"], target["distribution"], batch["action"], next_action, batch["reward"], batch["done"],
        batch["weight"],
    )  # fmt: skip
    loss, error = dist_nstep_td_error(data, gamma, v_min, v_max, n_atom, nstep, batch.get("value_gamma"))
    return QLoss(loss, error.detach(), mean_values(output["logit"], target["logit"]))


@POLICY_REGISTRY.register("c51")
class C51Policy(DQNPolicy):
    """Categorical Q-learning; the rest is as in :class:`DQNPolicy`. Priorities are the cross entropies."""

    config = {
        "type": "c51",
        # Range and number of the atoms.
        "model": {"v_min": -10, "v_max": 10, "n_atom": 51},
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``c51dqn`` of :mod:`ding.model.template.q_learning`."""
        return "c51dqn", ["ding.model.template.q_learning"]

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        atoms = self._cfg.model.v_min, self._cfg.model.v_max, self._cfg.model.n_atom
        return c51_loss(self._model, self._target_model.forward, batch, self._gamma, self._nstep, *atoms)

    def _priorities(self, error: torch.Tensor) -> torch.Tensor:
        return error
