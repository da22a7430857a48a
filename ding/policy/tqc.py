"""TQC: SAC with quantiles of the return, of which targets leave out the largest."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy.errors import PolicyConfigError
from ding.policy.sac import ActorLoss, CriticLoss, EnsembleSACPolicy
from ding.rl_utils import quantile_huber_loss
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("tqc")
class TQCPolicy(EnsembleSACPolicy):
    """Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269): E critics predict M quantiles of the return
    each. A target is the mixture of all E * M of the target network without the largest ones, which keeps values from
    being too high. The actor learns from the mean of all quantiles.

    Priorities are differences of means. The rest is as in :class:`~ding.policy.sac.SACPolicy`.
    """

    config = {
        "type": "tqc",
        "transition_with_policy_data": False,
        "model": {
            "ensemble_num": 5,
            # (int) Quantiles of each critic, M.
            "num_quantiles": 25,
            "critic_head_hidden_size": 512,
            "critic_head_layer_num": 3,
        },
        "learn": {
            # (int) Largest quantiles per critic that targets leave out: typically 2, and 0 to 5; more lower targets.
            "top_quantiles_to_drop": 2,
            "alpha": 1.0,
        },
    }

    def _init_learn(self) -> None:
        super()._init_learn()
        model, dropped = self._cfg.model, self._cfg.learn.top_quantiles_to_drop
        if not 0 <= dropped < model.num_quantiles:
            raise PolicyConfigError(
                f"policy.learn.top_quantiles_to_drop must be at least 0 and less than the {model.num_quantiles} "
                f"quantiles of policy.model.num_quantiles, found {dropped!r}"
            )
        # Those that targets keep, of all critics together.
        self._num_kept = model.ensemble_num * (model.num_quantiles - dropped)
        middles = torch.arange(model.num_quantiles, dtype=torch.float32, device=self._device) + 0.5
        self._fractions = middles / model.num_quantiles

    def _critic_loss(self, batch: Mapping[str, Any], alpha: torch.Tensor | float) -> CriticLoss:
        """Quantile regression of each critic's ``theta(s, a)`` to ``r + discount (z - alpha log pi(a' | s'))`` for all
        ``z`` among the smallest of all critics' ``theta'(s', a')``, with ``a'`` drawn from ``pi(s')``.
        """
        with torch.no_grad():
            mu, sigma = self._model(batch["next_obs"], mode="compute_actor")["logit"]
            next_action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
            atoms = self._quantiles(self._target_model.forward, batch["next_obs"], next_action)
            kept = atoms.transpose(0, 1).flatten(1).topk(self._num_kept, largest=False, sorted=False).values
            discount = (batch["discount"] * batch["not_done"]).unsqueeze(-1)
            target = batch["reward"].unsqueeze(-1) + discount * (kept - (alpha * log_prob).unsqueeze(-1))
        quantiles = self._quantiles(self._model, batch["obs"], batch["action"])
        errors = quantile_huber_loss(quantiles, target, self._fractions).mean((-1, -2))
        q, target_mean = quantiles.detach().mean(-1), target.mean(-1)
        next_value = kept.mean(-1) - alpha * log_prob
        return CriticLoss((batch["weight"] * errors).mean(-1), q - target_mean, q, next_value)

    def _actor_loss(self, obs: Any, alpha: torch.Tensor) -> ActorLoss:
        """``mean (alpha log pi(a | s) - Q(s, a))`` with the mean ``Q`` of all quantiles of all critics, and ``a`` drawn
        from ``pi(s)`` by reparametrisation.
        """
        mu, sigma = self._model(obs, mode="compute_actor")["logit"]
        action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
        q = self._q_values(self._model, obs, action=action).mean(0)
        return ActorLoss((alpha * log_prob - q).mean(), log_prob.detach(), mu.detach(), sigma.detach())

    def _quantiles(self, network: Any, obs: Any, action: torch.Tensor) -> torch.Tensor:
        """The quantiles of each critic, ``[E, B, M]``."""
        quantiles: torch.Tensor = network({"obs": obs, "action": action}, mode="compute_critic")["quantiles"]
        return quantiles
