"""D4PG: DDPG with a distribution of the return, n-step returns and priorities."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._q_critic import ActorCritic, priorities
from ding.policy._q_loss import QLoss
from ding.policy.ddpg import DDPGPolicy
from ding.rl_utils import dist_nstep_td_data, dist_nstep_td_error, get_nstep_return_data, get_train_sample
from ding.utils import POLICY_REGISTRY


def d4pg_critic_loss(
    network: ActorCritic,
    target_network: ActorCritic,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    v_min: float,
    v_max: float,
    n_atom: int,
) -> QLoss:
    """Cross entropy of the distribution of the return to ``sum_{i<n} gamma^i r_i + gamma^n Z'(s_n, mu'(s_n))``.

    Args:
        network, target_network: see :class:`ding.model.QACDIST`.
        batch: ``obs, next_obs``; ``action`` ``[B, N]``; ``reward`` ``[nstep, B]``; ``done, weight`` (or None) ``[B]``;
            optional ``value_gamma`` ``[B]``.
        v_min, v_max, n_atom: range and number of the atoms.
    """
    with torch.no_grad():
        action = target_network(batch["next_obs"], mode="compute_actor")["action"]
        target = target_network({"obs": batch["next_obs"], "action": action}, mode="compute_critic")
    now = network({"obs": batch["obs"], "action": batch["action"]}, mode="compute_critic")
    # The critic has one row, that of the action taken.
    row = torch.zeros(len(now["q_value"]), dtype=torch.int64, device=now["q_value"].device)
    data = dist_nstep_td_data(
        now["distribution"], target["distribution"], row, row, batch["reward"], batch["done"], batch["weight"]
    )
    value_gamma = batch.get("value_gamma")
    loss, error = dist_nstep_td_error(data, gamma, v_min, v_max, n_atom, nstep, value_gamma=value_gamma)
    return QLoss(loss, error.detach(), {"q_value": now["q_value"].detach().mean()})


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
        atoms = self._cfg.model
        result = d4pg_critic_loss(
            self._model, self._target_model.forward, batch, self._gamma, self._cfg.nstep,
            atoms.v_min, atoms.v_max, atoms.n_atom,
        )  # fmt: skip
        self._optimize(result.loss, self._optimizer_critic, self._model.critic)
        # A cross entropy is the size of the error already.
        priority = priorities(result.error, reference_numerics=True)
        return {"critic_loss": result.loss}, {"priority": priority, **result.numbers}

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
