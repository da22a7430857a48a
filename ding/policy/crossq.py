"""CrossQ: SAC without target networks, by batch normalisation over the states before and behind a step."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from ding.policy._learning.critics import critic_losses
from ding.policy.sac import ActorLoss, CriticLoss, EnsembleSACPolicy
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import map_together


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Have a network normalise by its running statistics, and leave them as they are, while the block lasts."""
    module.eval()
    try:
        yield
    finally:
        module.train()


@POLICY_REGISTRY.register("crossq")
class CrossQPolicy(EnsembleSACPolicy):
    """CrossQ (Bhatt et al. 2019, arXiv:1902.05605): actor and critics with batch renormalisation, and no target
    network.

    The critics see the states of the samples and those behind them in one batch, so that both are normalised by the
    same statistics. Each part moves its running statistics when it learns, and is in evaluation mode otherwise. The
    actor has its turn at every third update. The rest is as in :class:`~ding.policy.sac.SACPolicy`.
    """

    config = {
        "type": "crossq",
        "random_collect_size": 5000,
        "transition_with_policy_data": False,
        "model": {"ensemble_num": 2},
        "learn": {
            "learning_rate_q": 1e-3,
            "learning_rate_policy": 1e-3,
            "learning_rate_alpha": 1e-3,
            # (tuple) Decay of the moments of the optimisers of actor and critics.
            "betas": (0.5, 0.999),
            "actor_update_freq": 3,
            "alpha": 1.0,
        },
    }

    learn_state = {"model": "_learn_model", "optimizer_q": "_optimizer_q", "optimizer_policy": "_optimizer_policy"}

    def default_model(self) -> tuple[str, list[str]]:
        """``crossq`` of :mod:`ding.model.template.ensemble_qac`."""
        return "crossq", ["ding.model.template.ensemble_qac"]

    def _init_target(self) -> None:
        self._target_model = None

    def _critic_loss(self, batch: Mapping[str, Any], alpha: torch.Tensor | float) -> CriticLoss:
        """``mean (Q_i(s, a) - R)^2`` with ``R = r + discount (min_i Q_i(s', a') - alpha log pi(a' | s'))`` and ``a'``
        drawn from ``pi(s')``; ``Q_i(s, a)`` and ``Q_i(s', a')`` come from one pass over both.
        """
        with torch.no_grad(), evaluating(self._model.actor):
            mu, sigma = self._model(batch["next_obs"], mode="compute_actor")["logit"]
            next_action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
        both = map_together(lambda *parts: torch.cat(parts), batch["obs"], batch["next_obs"])
        values = self._q_values(self._model, both, action=torch.cat([batch["action"], next_action]))
        q, next_q = values.chunk(2, 1)
        with torch.no_grad():
            next_value = next_q.amin(0) - alpha * log_prob
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        losses = critic_losses(q - target, batch["weight"])
        return CriticLoss(losses, (q - target).detach(), q.detach(), next_value)

    def _actor_loss(self, obs: Any, alpha: torch.Tensor) -> ActorLoss:
        """``mean (alpha log pi(a | s) - min_i Q_i(s, a))`` with ``a`` drawn from ``pi(s)`` by reparametrisation."""
        mu, sigma = self._model(obs, mode="compute_actor")["logit"]
        action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
        with evaluating(self._model.critic):
            q = self._q_values(self._model, obs, action=action).amin(0)
        return ActorLoss((alpha * log_prob - q).mean(), log_prob.detach(), mu.detach(), sigma.detach())
