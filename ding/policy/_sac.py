"""SAC: a stochastic actor, two critics, and a temperature that keeps the entropy."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ding.data import EnvBatch, batched, is_batched
from ding.model import model_wrap
from ding.policy._q_critic import ActorCritic, CriticLoss, critic_loss, least, priorities
from ding.policy._soft_actor_critic import SoftActorCriticPolicy
from ding.policy.common_utils import transition_of
from ding.rl_utils.squashed_normal import squashed_sample
from ding.torch_utils.parameter import frozen
from ding.utils import POLICY_REGISTRY


class ActorLoss(NamedTuple):
    """What :func:`sac_actor_loss` returns; only ``loss`` has gradients."""

    #: 0-d.
    loss: torch.Tensor
    #: Of the actions that were drawn, ``[B]`` (``[B, agents]``).
    log_prob: torch.Tensor
    #: Of the normal distribution, ``[B, N]``.
    mu: torch.Tensor
    sigma: torch.Tensor


def sac_critic_loss(
    network: ActorCritic,
    target_network: ActorCritic,
    alpha: torch.Tensor,
    batch: Mapping[str, Any],
    gamma: float,
    reference_numerics: bool = False,
) -> CriticLoss:
    """Squared errors of the critics to ``r + gamma (min_i Q_i'(s', a') - alpha log pi(a' | s'))``, ``a'`` drawn anew.

    Args:
        network, target_network: see :class:`ding.model.ContinuousQAC` with ``action_space='reparameterization'``.
        alpha: 0-d, without gradients.
        batch: ``obs, next_obs`` ``[B, ...]``, ``action`` ``[B, N]``, ``reward, done, weight`` (or None) ``[B]``.
        reference_numerics: see :func:`ding.rl_utils.squashed_normal.squashed_sample`.
    """
    next_obs = batch["next_obs"]
    with torch.no_grad():
        mu, sigma = network(next_obs, mode="compute_actor")["logit"]
        action, log_prob = squashed_sample(mu, sigma, reference_numerics)
        next_q = least(target_network({"obs": next_obs, "action": action}, mode="compute_critic")["q_value"])
        next_value = next_q - alpha * log_prob
    q_value = network({"obs": batch["obs"], "action": batch["action"]}, mode="compute_critic")["q_value"]
    return critic_loss(q_value, next_value, batch, gamma)


def sac_actor_loss(network: ActorCritic, alpha: torch.Tensor, obs: Any, reference_numerics: bool = False) -> ActorLoss:
    """``mean(alpha log pi(a | s) - min_i Q_i(s, a))`` with ``a`` drawn by reparametrisation; arguments as those of
    :func:`sac_critic_loss`.
    """
    mu, sigma = network(obs, mode="compute_actor")["logit"]
    action, log_prob = squashed_sample(mu, sigma, reference_numerics)
    q_value = least(network({"obs": obs, "action": action}, mode="compute_critic")["q_value"])
    return ActorLoss((alpha * log_prob - q_value).mean(), log_prob.detach(), mu.detach(), sigma.detach())


@POLICY_REGISTRY.register("sac")
class SACPolicy(SoftActorCriticPolicy):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905).

    Actions are ``tanh`` of a normal sample. ``learn.auto_alpha`` learns the temperature ``alpha`` so that the entropy
    comes to ``learn.target_entropy``, by default minus the number of dimensions of the action. Priorities are
    ``|Q - target|``; ``reference_numerics=True`` makes them squares, stores time limits as terminal, and has the
    original's rounding of densities.
    """

    config = {"type": "sac", "model": {"action_space": "reparameterization"}}

    def default_model(self) -> tuple[str, list[str]]:
        """``continuous_qac`` of :mod:`ding.model.template.qac`, or ``continuous_maqac`` for several agents."""
        if self._cfg.multi_agent:
            return "continuous_maqac", ["ding.model.template.maqac"]
        return "continuous_qac", ["ding.model.template.qac"]

    def _default_entropy(self) -> float:
        return -float(np.prod(self._cfg.model.action_shape))

    def _init_weights(self) -> None:
        """Start with small means and deviations around 1."""
        bound, head = self._cfg.learn.init_w, getattr(self._model, "actor_head", None)
        if head is not None:
            for layer in (head[-1].mu, head[-1].log_sigma_layer):
                layer.weight.data.uniform_(-bound, bound)
                layer.bias.data.uniform_(-bound, bound)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of critics, actor and temperature."""
        alpha = self._temperature.value.clone()
        losses, numbers = self._update_critic(batch, alpha)
        with frozen(self._critic_only):
            actor = self._actor_loss(alpha, batch["obs"])
        self._optimize(actor.loss, self._optimizer_policy, self._model.actor)
        losses |= {"policy_loss": actor.loss, **self._update_temperature(actor.log_prob)}
        self._target_model.update(self._model)
        return self._report(losses, {**numbers, **self._actor_numbers(actor)})

    def _actor_loss(self, alpha: torch.Tensor, obs: Any) -> ActorLoss:
        return sac_actor_loss(self._model, alpha, obs, self._reference_numerics)

    def _actor_numbers(self, actor: ActorLoss) -> dict[str, torch.Tensor]:
        """What to log of the actor's update."""
        shift = self._target_entropy if self._reference_numerics and self._cfg.learn.auto_alpha else 0.0
        return {"transformed_log_prob": actor.log_prob.mean() + shift}

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """One step of the critics; returns the losses, and further values to log with ``priority`` ``[B]``."""
        result = sac_critic_loss(
            self._model, self._target_model.forward, alpha, batch, self._gamma, self._reference_numerics
        )
        self._optimize(torch.stack(result.losses).sum(), self._optimizer_q, self._model.critic)
        numbers = {
            "priority": priorities(result.error, self._reference_numerics),
            "td_error": result.error.mean(),
            "target_q_value": result.target_q_value,
        }
        return dict(zip(("critic_loss", "twin_critic_loss"), result.losses)), numbers

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "target_q_value", "transformed_log_prob"]

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        # A subclass with a ``_forward_collect`` of its own may draw by ``logit``.
        keep_logit = self._cfg.collect.collector_logit or not is_batched(self._forward_collect)
        self._collect_model = model_wrap(self._model, wrapper_name="squashed_sample", keep_logit=keep_logit)

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """Actions drawn from the policy: ``action`` float32 ``[N, D]``, and with ``collect.collector_logit`` ``logit``,
        per environment the list of mean and deviation.
        """
        return self._act(self._collect_model, data, mode="compute_actor")

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, reward, done`` and ``logit`` if asked for; for one environment or columns of N."""
        fields = ("logit", "action") if self._cfg.collect.collector_logit else ("action",)
        return transition_of(obs, policy_output, timestep, fields, time_limit_is_end=self._reference_numerics)

    def _get_keeps_outputs(self) -> bool:
        return bool(self._cfg.collect.collector_logit)

    def _init_eval(self) -> None:
        keep_logit = not is_batched(self._forward_eval)
        self._eval_model = model_wrap(self._model, wrapper_name="squashed_deterministic_sample", keep_logit=keep_logit)

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The squashed means: ``action`` float32 ``[N, D]``."""
        return self._act(self._eval_model, data, mode="compute_actor")
