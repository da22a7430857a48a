"""C51: Q-learning of the distribution of returns over fixed atoms (Bellemare et al. 2017, arXiv:1707.06887)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.q_values import QLoss, greedy, mean_of, row_of_action
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import projected_cross_entropy
from ding.utils import POLICY_REGISTRY


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
        """Cross entropy of ``Z(s, a)`` to ``r + discount Z'(s', argmax_a E Z(s', a))``, projected onto the atoms."""
        v_min, v_max, n_atom = self._cfg.model.v_min, self._cfg.model.v_max, self._cfg.model.n_atom
        output = self._model(batch["obs"])
        with torch.no_grad():
            following = self._target_model.forward(batch["next_obs"])
            best = greedy(self._choosing_network(batch["next_obs"])["logit"], batch["next_action_mask"])
            next_dist = row_of_action(following["distribution"], best)
            atoms = torch.linspace(v_min, v_max, n_atom, device=best.device)
            discount = batch["discount"] * batch["not_done"]
            moved_atoms = batch["reward"].unsqueeze(-1) + discount.unsqueeze(-1) * atoms
        dist = row_of_action(output["distribution"], batch["action"])
        error = projected_cross_entropy(dist, next_dist, moved_atoms, v_min, v_max)
        loss = (batch["weight"] * error).mean()
        numbers = {"q_value": mean_of(output["logit"]), "target_q_value": mean_of(following["logit"])}
        return QLoss(loss, error.detach(), numbers)

    def _choosing_network(self, obs: Any) -> Mapping[str, Any]:
        """The network that chooses the next actions."""
        output: Mapping[str, Any] = self._model(obs)
        return output
