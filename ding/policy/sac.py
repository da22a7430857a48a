"""SAC: a stochastic actor, two critics, and a temperature that keeps the entropy; for continuous and discrete actions,
and with the rewards of SQIL.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from ding.data import EnvBatch, batched, is_batched
from ding.model import model_wrap
from ding.policy._learning.critics import ActorCritic, critic_losses, ensemble_q_values, priorities, q_values
from ding.policy._learning.soft_actor_critic import SoftActorCriticPolicy
from ding.policy.common_utils import transition_of
from ding.rl_utils.policy_dist import action_mask_of
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import map_nested

# The logit of a forbidden action.
_FORBIDDEN = -1e8
# The share of the entropy of uniform actions that a temperature leads to, unless the config names an entropy.
_ENTROPY_SHARE = 0.98
# What keeps the logarithm of a chance finite.
_EPSILON = 1e-8


class CriticLoss(NamedTuple):
    """What the loss of SAC's critics returns; only ``losses`` has gradients."""

    #: Of each critic, ``[critics]``.
    losses: torch.Tensor
    #: ``Q_i(s, a) - R`` and ``Q_i(s, a)``, ``[critics, B]`` (``[critics, B, agents]``).
    td_errors: torch.Tensor
    q: torch.Tensor
    #: The value of the next state, with its entropy: ``[B]`` (``[B, agents]``).
    next_value: torch.Tensor


class ActorLoss(NamedTuple):
    """What the loss of SAC's actor returns; only ``loss`` has gradients."""

    #: 0-d.
    loss: torch.Tensor
    #: Of the actions that were drawn, ``[B]`` (``[B, agents]``).
    log_prob: torch.Tensor
    #: Of the normal distribution, ``[B, N]``.
    mu: torch.Tensor
    sigma: torch.Tensor


@POLICY_REGISTRY.register("sac")
class SACPolicy(SoftActorCriticPolicy):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905).

    Actions are ``tanh`` of a normal sample. ``learn.auto_alpha`` learns the temperature ``alpha`` so that the entropy
    comes to ``learn.target_entropy``, by default minus the number of dimensions of the action. Priorities are
    ``|Q - target|``; ``reference_numerics=True`` makes them squares, stores time limits as terminal, and has
    DI-engine's rounding of densities.
    """

    config = {
        "type": "sac",
        "model": {"action_space": "reparameterization"},
        "learn": {
            # (int) Updates of the critics per update of actor and temperature.
            "actor_update_freq": 1,
        },
    }

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

    _q_values: Callable[..., torch.Tensor] = staticmethod(q_values)
    """Values of each critic, ``[critics, B]`` (``[critics, B, agents]``), from a network, ``obs`` and ``action``."""

    def _update(self, batch: Mapping[str, Any], *, with_actor: bool = True, **options: Any) -> dict[str, torch.Tensor]:
        """One update of the critics, and ``with_actor`` of actor and temperature, in this order."""
        alpha = self._temperature.value.clone()
        losses, numbers = self._update_critic(batch, alpha)
        if with_actor:
            actor = self._actor_loss(batch["obs"], alpha)
            self._optimize(actor.loss, self._optimizer_policy, self._model.actor)
            losses |= {"policy_loss": actor.loss, **self._update_temperature(actor.log_prob)}
            numbers |= self._actor_numbers(actor)
        if self._target_model is not None:
            self._target_model.update(self._model)
        return self._report(losses, numbers)

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """One step of the critics; returns the losses, and further values to log with ``priority`` ``[B]``."""
        critic = self._critic_loss(batch, alpha)
        self._optimize(critic.losses.sum(), self._optimizer_q, self._model.critic)
        return dict(zip(("critic_loss", "twin_critic_loss"), critic.losses)), self._critic_numbers(critic)

    def _critic_loss(self, batch: Mapping[str, Any], alpha: torch.Tensor | float) -> CriticLoss:
        """``mean (Q_i(s, a) - R)^2`` with ``R = r + discount (min_i Q_i'(s', a') - alpha log pi(a' | s'))`` and ``a'``
        drawn from ``pi(s')``.
        """
        with torch.no_grad():
            mu, sigma = self._model(batch["next_obs"], mode="compute_actor")["logit"]
            next_action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
            next_q = self._q_values(self._target_model.forward, batch["next_obs"], action=next_action).amin(0)
            next_value = next_q - alpha * log_prob
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        q = self._q_values(self._model, batch["obs"], action=batch["action"])
        losses = critic_losses(q - target, batch["weight"])
        return CriticLoss(losses, (q - target).detach(), q.detach(), next_value)

    def _actor_loss(self, obs: Any, alpha: torch.Tensor) -> ActorLoss:
        """``mean (alpha log pi(a | s) - min_i Q_i(s, a))`` with ``a`` drawn from ``pi(s)`` by reparametrisation."""
        mu, sigma = self._model(obs, mode="compute_actor")["logit"]
        action, log_prob = squashed_sample(mu, sigma, self._reference_numerics)
        q = self._q_values(self._model, obs, action=action).amin(0)
        return ActorLoss((alpha * log_prob - q).mean(), log_prob.detach(), mu.detach(), sigma.detach())

    def _critic_numbers(self, critic: CriticLoss) -> dict[str, torch.Tensor]:
        """What to log of the critics' update, and ``priority`` ``[B]``."""
        return {
            "priority": priorities(critic.td_errors, self._reference_numerics),
            "td_error": critic.td_errors.square().mean(),
            "target_q_value": critic.next_value.mean(),
        }

    def _actor_numbers(self, actor: ActorLoss) -> dict[str, torch.Tensor]:
        """What to log of the actor's update."""
        shift = self._target_entropy if self._reference_numerics and self._cfg.learn.auto_alpha else 0.0
        return {"transformed_log_prob": actor.log_prob.mean() + shift}

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


class EnsembleSACPolicy(SACPolicy):
    """SAC with critics that one network computes together (``ensemble_qac`` of :mod:`ding.model.template.ensemble_qac`,
    or ``edac``); ``critic_loss`` is the sum over them.
    """

    def default_model(self) -> tuple[str, list[str]]:
        """``ensemble_qac`` of :mod:`ding.model.template.ensemble_qac`."""
        return "ensemble_qac", ["ding.model.template.ensemble_qac"]

    _q_values = staticmethod(ensemble_q_values)

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        critic = self._critic_loss(batch, alpha)
        loss = critic.losses.sum()
        self._optimize(loss, self._optimizer_q, self._model.critic)
        return {"critic_loss": loss}, self._critic_numbers(critic)

    def _monitor_vars_learn(self) -> list[str]:
        return [name for name in super()._monitor_vars_learn() if name != "twin_critic_loss"]


@POLICY_REGISTRY.register("discrete_sac")
class DiscreteSACPolicy(SoftActorCriticPolicy):
    """Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207).

    The temperature leads to 0.98 of the entropy of uniform actions, unless ``learn.target_entropy`` names another one.
    DI-engine takes ``-prod(action_shape)``, which no policy can have; ``reference_numerics=True`` does so, too.
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
        """One update of critics, actor and temperature, in this order.

        ``Q_i(s, a)`` meets ``r + discount sum_a pi(a | s') (min_i Q_i'(s', a) - alpha log pi(a | s'))``. The actor
        minimises ``sum_a pi(a | s) (alpha log pi(a | s) - min_i Q_i(s, a))``.
        """
        obs, next_obs, alpha = batch["obs"], batch["next_obs"], self._temperature.value.clone()
        with torch.no_grad():
            chance = self._logit(next_obs).softmax(-1)
            next_q = self._each(self._target_model.forward, next_obs).amin(0)
            next_value = (chance * (next_q - alpha * (chance + _EPSILON).log())).sum(-1)
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        q = self._each(self._model, obs)
        taken = batch["action"].expand(q.shape[:-1]).unsqueeze(-1)
        td_errors = q.gather(-1, taken).squeeze(-1) - target
        critic_loss = critic_losses(td_errors, batch["weight"])
        self._optimize(critic_loss.sum(), self._optimizer_q, self._model.critic)

        with torch.no_grad():
            q_now = self._each(self._model, obs).amin(0)
        log_prob = self._logit(obs).log_softmax(-1)
        # A forbidden action has no chance: its part is zero, however far its logarithm lies.
        policy_loss = (log_prob.exp() * (alpha * log_prob - q_now)).sum(-1).mean()
        self._optimize(policy_loss, self._optimizer_policy, self._model.actor)
        log_prob = log_prob.detach()
        alpha_loss = self._update_temperature((log_prob.exp() * log_prob).sum(-1))
        self._target_model.update(self._model)

        # Of the policy that drew the samples, as DI-engine logs it, or of the policy now.
        seen = batch["logit"].log_softmax(-1) if self._reference_numerics else log_prob
        numbers = {
            "priority": priorities(td_errors, self._reference_numerics),
            "td_error": td_errors.detach().square().mean(),
            "target_value": next_value.mean(),
            "entropy": -(seen.exp() * seen).sum(-1).mean(),
            **dict(zip(("q_value_1", "q_value_2"), q.detach().flatten(1).mean(1))),
        }
        losses = dict(zip(("critic_loss", "twin_critic_loss"), critic_loss))
        return self._report({**losses, "policy_loss": policy_loss, **alpha_loss}, numbers)

    def _each(self, network: ActorCritic, obs: Any) -> torch.Tensor:
        """The values of each critic, ``[critics, B, N]`` (``[critics, B, agents, N]``)."""
        values = network(obs, mode="compute_critic")["q_value"]
        return values.unsqueeze(0) if isinstance(values, torch.Tensor) else torch.stack(list(values))

    def _logit(self, obs: Any) -> torch.Tensor:
        """The logits ``[..., N]``, very small where the ``action_mask`` of the output or of the observation is 0."""
        output = self._model(obs, mode="compute_actor")
        mask = output.get("action_mask", action_mask_of(obs))
        logit: torch.Tensor = output["logit"]
        return logit if mask is None else logit.masked_fill(mask == 0, _FORBIDDEN)

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


@POLICY_REGISTRY.register("sqil_sac")
class SQILSACPolicy(SACPolicy):
    """SAC for soft Q imitation learning (Reddy et al. 2019, arXiv:1905.11108).

    A batch holds the agent's samples in its first half and the expert's in its second, as the pipeline makes it. It
    logs the TD error of each half, and the cosine between the gradients that both give to the critics.
    """

    config = {"type": "sqil_sac"}

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        half = len(batch["reward"]) // 2
        agent, expert = (self._critic_loss(_rows(batch, rows), alpha) for rows in (slice(0, half), slice(half, None)))
        parameters = [parameter for parameter in self._model.critic.parameters() if parameter.requires_grad]
        expert_gradients = torch.autograd.grad(expert.losses.sum(), parameters, retain_graph=True)
        losses = (agent.losses + expert.losses) / 2
        self._optimize(losses.sum(), self._optimizer_q, self._model.critic)
        # The gradient of the mean of both losses is still there: what the agent's half gave is the rest of it.
        both = torch.cat([parameter.grad.reshape(-1) for parameter in parameters if parameter.grad is not None])
        shown_gradient = torch.cat([gradient.reshape(-1) for gradient in expert_gradients])
        whole = CriticLoss(losses, *(torch.cat(halves, -1) for halves in zip(agent[1:], expert[1:])))
        numbers = {
            **self._critic_numbers(whole),
            "agent_td_error": agent.td_errors.square().mean(),
            "expert_td_error": expert.td_errors.square().mean(),
            "cos_similarity": F.cosine_similarity(2 * both - shown_gradient, shown_gradient, dim=0),
            **{f"q_value{i}": q for i, q in enumerate(whole.q.mean(1))},
        }
        return dict(zip(("critic_loss", "twin_critic_loss"), losses)), numbers

    def _actor_numbers(self, actor: ActorLoss) -> dict[str, torch.Tensor]:
        return {"mu": actor.mu.mean(), "sigma": actor.sigma.mean(), "entropy": -actor.log_prob.mean()}

    def _monitor_vars_learn(self) -> list[str]:
        shared = [name for name in super()._monitor_vars_learn() if name != "transformed_log_prob"]
        values = ["q_value0", *(["q_value1"] if self._cfg.model.get("twin_critic", False) else [])]
        halves = ["agent_td_error", "expert_td_error", "cos_similarity"]
        return [*shared, *halves, *values, "mu", "sigma", "entropy"]


def _rows(batch: Mapping[str, Any], rows: slice) -> dict[str, Any]:
    part: dict[str, Any] = map_nested(lambda leaf: None if leaf is None else leaf[rows], batch)
    return part
