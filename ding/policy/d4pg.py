"""D4PG: DDPG with a distribution of the return, n-step returns and priorities."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.policy.ddpg import DDPGPolicy
from ding.rl_utils import get_nstep_return_data, get_train_sample, projected_cross_entropy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("d4pg")
class D4PGPolicy(DDPGPolicy):
    """Distributed distributional DDPG (Barth-Maron et al. 2018, arXiv:1804.08617), in one process.

    The critic is a categorical distribution of the return; a priority is its cross entropy to the target.
    """

    config = {
        "type": "d4pg",
        "priority": True,
        "priority_IS_weight": True,
        # (int) Number of rewards before the bootstrap value.
        "nstep": 3,
        # Range of the returns that the critic can express, and number of the atoms in it.
        "model": {"v_min": -10, "v_max": 10, "n_atom": 51},
        "eval": {"evaluator": {"eval_freq": 1000}},
        "other": {"replay_buffer": {"replay_buffer_size": 1000000}},
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``qac_dist`` of :mod:`ding.model.template.qac_dist`."""
        return "qac_dist", ["ding.model.template.qac_dist"]

    def _update_critic(self, batch: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """One step of the critic on the cross entropy of ``Z(s, a)`` to ``r + discount Z'(s', mu'(s'))``."""
        v_min, v_max, n_atom = self._cfg.model.v_min, self._cfg.model.v_max, self._cfg.model.n_atom
        next_obs, target_network = batch["next_obs"], self._target_model.forward
        with torch.no_grad():
            next_action = target_network(next_obs, mode="compute_actor")["action"]
            following = target_network({"obs": next_obs, "action": next_action}, mode="compute_critic")
            atoms = torch.linspace(v_min, v_max, n_atom, device=next_action.device)
            discount = batch["discount"] * batch["not_done"]
            moved_atoms = batch["reward"].unsqueeze(-1) + discount.unsqueeze(-1) * atoms
        now = self._model({"obs": batch["obs"], "action": batch["action"]}, mode="compute_critic")
        # The critic has one row of atoms, that of the action taken.
        dist, next_dist = (one["distribution"].squeeze(1) for one in (now, following))
        error = projected_cross_entropy(dist, next_dist, moved_atoms, v_min, v_max)
        loss = (batch["weight"] * error).mean()
        self._optimize(loss, self._optimizer_critic, self._model.critic)
        # A cross entropy is the size of the error already.
        return {"critic_loss": loss}, {"priority": error.detach(), "q_value": now["q_value"].detach().mean()}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr_actor", "cur_lr_critic", "critic_loss", "actor_loss", "total_loss", "q_value", "action"]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """n-step returns (``reward`` of n steps, ``value_gamma``), then sequences of ``collect.unroll_len``."""
        cfg = self._cfg
        samples = get_nstep_return_data(
            transitions, cfg.nstep, gamma=cfg.learn.discount_factor, reference_tail=self._reference_numerics
        )
        return get_train_sample(samples, self._unroll_len)
