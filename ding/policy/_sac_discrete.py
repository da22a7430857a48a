"""Discrete SAC: soft actor-critic over a finite set of actions."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from ding.data import EnvBatch, batched
from ding.model import model_wrap
from ding.policy._policy_parts import action_mask_of
from ding.policy._q_critic import ActorCritic, each, least, priorities
from ding.policy._q_loss import QLoss
from ding.policy._soft_actor_critic import SoftActorCriticPolicy
from ding.policy.common_utils import transition_of
from ding.rl_utils import q_v_1step_td_data, q_v_1step_td_error
from ding.utils import POLICY_REGISTRY

# The logit of a forbidden action.
_FORBIDDEN = -1e8
# The share of the entropy of uniform actions that a temperature leads to, unless the config names an entropy.
_ENTROPY_SHARE = 0.98
# What keeps the logarithm of a chance finite.
_EPSILON = 1e-8


def discrete_sac_critic_loss(
    network: ActorCritic, target_network: ActorCritic, alpha: torch.Tensor, batch: Mapping[str, Any], gamma: float
) -> tuple[list[torch.Tensor], QLoss]:
    """Squared errors of the critics to ``r + gamma sum_a pi(a | s') (min_i Q_i'(s', a) - alpha log pi(a | s'))``.

    Args:
        network, target_network: see :class:`ding.model.DiscreteQAC`.
        alpha: 0-d, without gradients.
        batch: ``obs, next_obs``; ``action`` int64 ``[B]`` (``[B, agents]``); ``reward, done, weight`` (None) ``[B]``.

    Returns:
        The loss per critic, and their sum with the error per sample and the values to log.
    """
    with torch.no_grad():
        logit = _logit(network, batch["next_obs"])
        chance = logit.softmax(-1)
        next_q = least(target_network(batch["next_obs"], mode="compute_critic")["q_value"])
        next_value = (chance * (next_q - alpha * (chance + _EPSILON).log())).sum(-1)
    values = each(network(batch["obs"], mode="compute_critic")["q_value"])
    rest = (next_value, batch["action"], batch["reward"], batch["done"], batch["weight"])
    pairs = [q_v_1step_td_error(q_v_1step_td_data(q, *rest), gamma) for q in values]
    losses = [loss for loss, _ in pairs]
    error = torch.stack([per_sample.detach() for _, per_sample in pairs]).mean(0)
    names = ("q_value_1", "q_value_2")
    numbers = {name: q.detach().mean() for name, q in zip(names, values)}
    return losses, QLoss(torch.stack(losses).sum(), error, {**numbers, "target_value": next_value.mean()})


def discrete_sac_actor_loss(network: ActorCritic, alpha: torch.Tensor, obs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """``mean sum_a pi(a | s) (alpha log pi(a | s) - min_i Q_i(s, a))``.

    Returns:
        The loss, 0-d, and ``log pi`` ``[..., N]`` without gradients.
    """
    with torch.no_grad():
        q_value = least(network(obs, mode="compute_critic")["q_value"])
    logit = _logit(network, obs)
    log_prob = logit.log_softmax(-1)
    chance = log_prob.exp()
    # A forbidden action has no chance: its part is zero, however far its logarithm lies.
    return (chance * (alpha * log_prob - q_value)).sum(-1).mean(), log_prob.detach()


def _logit(network: ActorCritic, obs: Any) -> torch.Tensor:
    """The logits ``[..., N]``, very small where the ``action_mask`` of the output or of the observation is 0."""
    output = network(obs, mode="compute_actor")
    mask = output.get("action_mask", action_mask_of(obs))
    logit: torch.Tensor = output["logit"]
    return logit if mask is None else logit.masked_fill(mask == 0, _FORBIDDEN)


@POLICY_REGISTRY.register("discrete_sac")
class DiscreteSACPolicy(SoftActorCriticPolicy):
    """Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207).

    The temperature leads to 0.98 of the entropy of uniform actions, unless ``learn.target_entropy`` names another one.
    The original API takes ``-prod(action_shape)``, which no policy can have; ``reference_numerics=True`` does so, too.
    It collects by drawing from the policy, or with chance ``eps`` at random (``other.eps``).
    """

    config = {"type": "discrete_sac"}

    def default_model(self) -> tuple[str, list[str]]:
        """``discrete_qac`` of :mod:`ding.model.template.qac`, or ``discrete_maqac`` for several agents."""
        if self._cfg.multi_agent:
            return "discrete_maqac", ["ding.model.template.maqac"]
        return "discrete_qac", ["ding.model.template.qac"]

    def _default_entropy(self) -> float:
        shape = self._cfg.model.action_shape
        count = shape if isinstance(shape, int) else math.prod(shape)
        return -float(count) if self._reference_numerics else _ENTROPY_SHARE * math.log(count)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of critics, actor and temperature."""
        alpha = self._temperature.value.clone()
        losses, numbers = self._update_critic(batch, alpha)
        losses["policy_loss"], log_prob = discrete_sac_actor_loss(self._model, alpha, batch["obs"])
        self._optimize(losses["policy_loss"], self._optimizer_policy, self._model.actor)
        # Of the policy that drew the samples, as the original API logs it, or of the policy now.
        seen = batch["logit"].log_softmax(-1) if self._reference_numerics else log_prob
        numbers["entropy"] = -(seen.exp() * seen).sum(-1).mean()
        losses |= self._update_temperature((log_prob.exp() * log_prob).sum(-1))
        self._target_model.update(self._model)
        return self._report(losses, numbers)

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        losses, result = discrete_sac_critic_loss(self._model, self._target_model.forward, alpha, batch, self._gamma)
        self._optimize(result.loss, self._optimizer_q, self._model.critic)
        priority = priorities(result.error, self._reference_numerics)
        numbers = {"priority": priority, "td_error": result.error.mean(), **result.numbers}
        return dict(zip(("critic_loss", "twin_critic_loss"), losses)), numbers

    def _monitor_vars_learn(self) -> list[str]:
        values = ["target_value", "entropy", "q_value_1", *(["q_value_2"] if self._cfg.model.twin_critic else [])]
        return [*super()._monitor_vars_learn(), *values]

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = model_wrap(
            self._model,
            wrapper_name="eps_greedy_multinomial_sample",
            reference_numerics=self._reference_numerics,
        )

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """``logit`` and int64 ``action`` ``[N, 1]``, drawn from the policy, or with chance ``eps`` at random."""
        return self._act(self._collect_model, data, mode="compute_actor", eps=eps)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, logit, reward, done``, for one environment or for columns of N."""
        fields = ("action", "logit")
        return transition_of(obs, policy_output, timestep, fields, time_limit_is_end=self._reference_numerics)

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="argmax_sample")

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The most likely actions: ``logit`` and int64 ``action`` ``[N, 1]``."""
        return self._act(self._eval_model, data, mode="compute_actor")
