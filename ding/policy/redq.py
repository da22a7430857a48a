"""REDQ: SAC with many updates per env step, whose targets take the smallest of a few random critics of ten."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.critics import critic_losses
from ding.policy.sac import ActorLoss, CriticLoss, EnsembleSACPolicy
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("redq")
class REDQPolicy(EnsembleSACPolicy):
    """Randomized ensembled double Q-learning (Chen et al. 2021, arXiv:2101.05982): SAC with E critics, and 20 updates
    of them per env step. The target is the smallest value of a random subset, drawn anew in each update. The actor
    learns from the mean of all critics, once in ``learn.actor_update_freq`` updates.

    The rest is as in :class:`~ding.policy.sac.SACPolicy`.
    """

    config = {
        "type": "redq",
        # (int) Env steps of random actions before the training.
        "random_collect_size": 5000,
        "transition_with_policy_data": False,
        "model": {"ensemble_num": 10},
        "learn": {
            # (int) Updates of the critics per collection, G: typically 20 for one env step; more learn from fewer
            # env steps and take longer.
            "update_per_collect": 20,
            "actor_update_freq": 20,
            # (int) Random critics of which a target takes the smallest value, M: typically 2; more lower the targets.
            "target_subset": 2,
            "alpha": 1.0,
        },
    }

    def _critic_loss(self, batch: Mapping[str, Any], alpha: torch.Tensor | float) -> CriticLoss:
        """``mean (Q_i(s, a) - R)^2`` with ``R = r + discount (min_{j in S} Q_j'(s', a') - alpha log pi(a' | s'))``, a
        random subset ``S`` of ``target_subset`` critics, and ``a'`` drawn from ``pi(s')``.
        """
        with torch.no_grad():
            mu, sigma = self._model(batch["next_obs"], mode="compute_actor")["logit"]
            next_action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
            next_q = self._q_values(self._target_model.forward, batch["next_obs"], action=next_action)
            if self._cfg.learn.target_subset < len(next_q):
                next_q = next_q[torch.randperm(len(next_q), device=next_q.device)[: self._cfg.learn.target_subset]]
            next_value = next_q.amin(0) - alpha * log_prob
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        q = self._q_values(self._model, batch["obs"], action=batch["action"])
        losses = critic_losses(q - target, batch["weight"])
        return CriticLoss(losses, (q - target).detach(), q.detach(), next_value)

    def _actor_loss(self, obs: Any, alpha: torch.Tensor) -> ActorLoss:
        """``mean (alpha log pi(a | s) - mean_i Q_i(s, a))`` with ``a`` drawn from ``pi(s)`` by reparametrisation."""
        mu, sigma = self._model(obs, mode="compute_actor")["logit"]
        action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
        q = self._q_values(self._model, obs, action=action).mean(0)
        return ActorLoss((alpha * log_prob - q).mean(), log_prob.detach(), mu.detach(), sigma.detach())
