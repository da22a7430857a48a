"""IQL: implicit Q-learning from data sets (Kostrikov et al. 2021, arXiv:2110.06169)."""

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from easydict import EasyDict

from ding.data import EnvBatch, batched, is_batched
from ding.data.roles import StateDict
from ding.model import model_wrap
from ding.policy._learning.critics import critic_losses, priorities
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.target_update import target_network
from ding.policy.sac import SACPolicy
from ding.utils import POLICY_REGISTRY

_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
# The bounds of DI-engine's squashed actions, and its limit of the weights in the regression.
_REFERENCE_BOUND, _REFERENCE_MAX_WEIGHT = 1.05, 20.0
_MAX_POLICY_GRAD_NORM = 1.0
# Keys of the first releases of this package -> those of DI-engine.
_FORMER_KEYS = {
    "expectile": "tau",
    "learning_rate_critic": "learning_rate_q",
    "learning_rate_actor": "learning_rate_policy",
    "learning_rate_value": "learning_rate_q",
}


def asymmetric_l2_loss(u: torch.Tensor, tau: float) -> torch.Tensor:
    """Return ``mean(|tau - [u < 0]| u^2)``, 0-d: the loss whose minimum is the expectile ``tau`` of ``u``."""
    return ((tau - (u < 0).to(u.dtype)).abs() * u.square()).mean()


@POLICY_REGISTRY.register("iql")
class IQLPolicy(SACPolicy):
    """Implicit Q-learning: a value function that is an upper expectile of the critics over the actions of the data, and
    an actor by advantage-weighted regression.

    ``pi(a | s)`` is a normal distribution around ``tanh(mu)``, not squashed: actions at the bounds keep a finite
    density. ``reference_numerics=True`` has what DI-engine computes: no target network, a distribution that is
    squashed to ``(-1.05, 1.05)``, and weights of at most 20.
    """

    # Data sets hold the env's own actions.
    acts_in_unit_range = False
    optional_keys = {"learn": " ".join(_FORMER_KEYS)}

    config = {
        "type": "iql",
        "random_collect_size": 10000,
        "model": {
            "twin_critic": True,
            "action_space": "reparameterization",
            "actor_head_hidden_size": 512,
            "actor_head_layer_num": 3,
            "critic_head_hidden_size": 512,
            "critic_head_layer_num": 2,
        },
        "learn": {
            # (float) The expectile of the values, in (0, 1): 0.5 is the mean.
            "tau": 0.7,
            # (float) Temperature of the weights ``exp(advantage / beta)`` of the actor's regression: lower values keep
            # to the best actions of the data. The paper writes its inverse.
            "beta": 1.0,
            # (float) Limit of these weights.
            "max_weight": 100.0,
        },
    }

    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer_q": "_optimizer_q",
        "optimizer_policy": "_optimizer_policy",
    }

    def __init__(
        self, cfg: dict[str, Any], model: torch.nn.Module | None = None, enable_field: Iterable[str] | None = None
    ) -> None:
        super().__init__(_with_present_keys(cfg), model, enable_field)

    def default_model(self) -> tuple[str, list[str]]:
        """``continuous_qvac`` of :mod:`ding.model.template.qvac`."""
        return "continuous_qvac", ["ding.model.template.qvac"]

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        self._gamma = float(learn.discount_factor)
        self._init_weights()
        self._optimizer_q = clipping_adam(model.critic.parameters(), learn, lr=learn.learning_rate_q)
        self._optimizer_policy = clipping_adam(model.actor.parameters(), learn, lr=learn.learning_rate_policy)
        self._learn_model = model_wrap(model, wrapper_name="base")
        self._target_model = target_network(model, learn, SACPolicy.default_config().learn, self._reference_numerics)

    def _init_weights(self) -> None:
        """Start with small means and values."""
        bound, model = self._cfg.learn.init_w, self._model
        last = ("actor_head.2.mu.", "critic_q_head.0.2.last.", "critic_q_head.1.2.last.", "critic_q_head.2.last.")
        for name, parameter in model.named_parameters():
            if name.startswith((*last, "critic_v_head.2.last.")):
                parameter.data.uniform_(-bound, bound)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of critics and value function, then of the actor; only actions of the data are ever evaluated.

        ``V(s)`` is an expectile of ``min_i Q_i'(s, a)``, and ``Q_i(s, a)`` meets ``r + discount V(s')``. The actor
        maximises ``min(exp(A / beta), max_weight) log pi(a | s)`` with ``A = min_i Q_i'(s, a) - V(s)``.
        """
        learn, seen = self._cfg.learn, {"obs": batch["obs"], "action": batch["action"]}
        judge = self._model if self._reference_numerics else self._target_model.forward
        with torch.no_grad():
            q_judged = torch.stack(_listed(judge(seen, mode="compute_critic")["q_value"])).amin(0)
            next_value = self._model(batch["next_obs"], mode="compute_value")["v_value"]
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        output = self._model(seen, mode="compute_critic")
        td_errors = torch.stack(_listed(output["q_value"])) - target
        q_losses = critic_losses(td_errors, batch["weight"])
        v_loss = self._value_loss(q_judged - output["v_value"])
        self._optimize(q_losses.sum() + v_loss, self._optimizer_q, self._model.critic)

        with torch.no_grad():
            value = self._model(batch["obs"], mode="compute_value")["v_value"]
            q = torch.stack(_listed(judge(seen, mode="compute_critic")["q_value"])).amin(0)
            limit = _REFERENCE_MAX_WEIGHT if self._reference_numerics else learn.max_weight
            weight = ((q - value) / learn.beta).exp().clamp(max=limit)
        mu, sigma = self._model(batch["obs"], mode="compute_actor")["logit"]
        density = _squashed_density if self._reference_numerics else _density
        log_prob = density(mu, sigma, batch["action"])
        policy_loss = -(weight * log_prob).mean()
        norm = self._optimize(policy_loss, self._optimizer_policy, self._model.actor, _MAX_POLICY_GRAD_NORM)
        self._target_model.update(self._model)
        return {
            "q_loss": q_losses.mean(),
            "v_loss": v_loss,
            "policy_loss": policy_loss,
            "total_loss": (q_losses.sum() + policy_loss).detach(),
            "log_prob": log_prob.detach().mean(),
            "next_v_value": next_value.mean(),
            "new_q_value": q.mean(),
            "new_v_value": value.mean(),
            "advantage_max": (q - value).max(),
            "policy_grad_norm": norm,
            "priority": priorities(td_errors, self._reference_numerics),
        }

    def _value_loss(self, difference: torch.Tensor) -> torch.Tensor:
        """The loss of ``V(s)`` from ``min_i Q_i'(s, a) - V(s)``, ``[B]``: 0-d."""
        return asymmetric_l2_loss(difference, self._cfg.learn.tau)

    def _monitor_vars_learn(self) -> list[str]:
        losses = ["q_loss", "v_loss", "policy_loss", "total_loss"]
        values = ["log_prob", "next_v_value", "new_q_value", "new_v_value", "advantage_max", "policy_grad_norm"]
        return ["cur_lr_q", "cur_lr_p", *losses, *values]

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """A file of DI-engine has no target network, which then starts as the learner's."""
        super()._load_state_dict_learn({"target_model": state_dict["model"], **state_dict})

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = model_wrap(
            self._model,
            wrapper_name="squashed_sample",
            keep_logit=self._cfg.collect.collector_logit or not is_batched(self._forward_collect),
            squash_noise=self._reference_numerics,
        )

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The means: ``action`` float32 ``[N, D]``."""
        output = self._act(self._eval_model, data, mode="compute_actor")
        if not self._reference_numerics:
            return output
        return output.with_columns(action=output.fields["action"] / _REFERENCE_BOUND)


def _listed(values: torch.Tensor | list[torch.Tensor]) -> list[torch.Tensor]:
    return [values] if isinstance(values, torch.Tensor) else list(values)


def _density(mu: torch.Tensor, sigma: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Return ``log N(action; tanh(mu), sigma)``: ``[B]``."""
    distance = (action - torch.tanh(mu)) / sigma
    return (-0.5 * distance.square() - sigma.log() - _LOG_ROOT_2PI).sum(-1)


def _squashed_density(mu: torch.Tensor, sigma: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Return the log density of ``action = 1.05 tanh(u)`` with ``u`` of ``N(mu, sigma)``: ``[B]``."""
    raw = torch.atanh(action / _REFERENCE_BOUND)
    slope = math.log(_REFERENCE_BOUND) + 2.0 * (math.log(2.0) - raw - F.softplus(-2.0 * raw))
    return (-0.5 * ((raw - mu) / sigma).square() - sigma.log() - _LOG_ROOT_2PI - slope).sum(-1)


def _with_present_keys(cfg: Mapping[str, Any]) -> EasyDict:
    """Return ``cfg`` with the keys of DI-engine where it has former ones, and warn of them."""
    given = EasyDict(cfg)
    learn = given.get("learn", {})
    former = [key for key in _FORMER_KEYS if key in learn]
    if not former:
        return given
    if "beta" in learn:
        learn["beta"] = 1.0 / learn["beta"]
    for key in reversed(former):
        learn[_FORMER_KEYS[key]] = learn.pop(key)
    now = ", ".join(f"{key}={learn[key]}" for key in ("tau", "beta", "learning_rate_q", "learning_rate_policy"))
    warnings.warn(
        f"policy.learn of iql has the former keys {', '.join(former)}. IQL has the keys of DI-engine now, beta is the "
        f"inverse of the former one, and critics and values have one optimizer. Read as {now}.",
        stacklevel=3,
    )
    return given
