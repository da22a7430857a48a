"""TRPO: trust region policy optimisation (Schulman et al. 2015, arXiv:1502.05477)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._learning.distributed import mean_of_ranks
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.ppo_parameters import init_ppo_parameters
from ding.policy._learning.q_values import weighted
from ding.policy._learning.update import read_out
from ding.policy._learning.value_norm import ValueNormPolicy
from ding.policy._samples.segments import as_given
from ding.policy.errors import PolicyConfigError
from ding.policy.ppo import normalized
from ding.rl_utils import get_train_sample
from ding.rl_utils.policy_dist import action_mask_of
from ding.rl_utils.trust_region import assign, compared_policies, conjugate_gradient, flat
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import map_nested

_CRITIC_FIELDS = ("obs", "return", "weight")
_POLICY_NUMBERS = ("policy_loss", "kl", "entropy", "step_size", "accepted")


@POLICY_REGISTRY.register("trpo")
class TRPOPolicy(ValueNormPolicy):
    """On-policy TRPO for discrete, continuous and hybrid actions.

    From all samples of a collection the policy makes one natural gradient step, the longest for which the quadratic
    model of ``KL(old || new)`` stays at ``learn.max_kl``; it is shortened until the divergence itself does and the
    surrogate has grown. The critic then learns the returns in epochs of minibatches. Both have networks of their own.
    """

    _learns_from_transitions = False

    config = {
        "type": "trpo",
        "on_policy": True,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        # (str) 'discrete', 'continuous' or 'hybrid'.
        "action_space": "discrete",
        "transition_with_policy_data": True,
        # (bool) Kept False: actor and critic learn by different rules.
        "model": {"share_encoder": False},
        "learn": {
            # (float) Bound of the mean divergence KL(old || new) of a step.
            "max_kl": 0.01,
            # (int) Steps of conjugate gradient.
            "cg_steps": 15,
            # (float) What is added to the diagonal of the Fisher matrix.
            "cg_damping": 0.1,
            # (int) How often a step may be shortened.
            "line_search_steps": 10,
            # (float) The share that is left of a step each time.
            "line_search_shrink": 0.8,
            # (int) How often the critic goes through all samples of a collection.
            "epoch_per_collect": 10,
            "batch_size": 128,
            # (float) Of the critic.
            "learning_rate": 1e-3,
            # (bool) Whether advantages are normalised.
            "adv_norm": True,
            # (bool) Whether values are learned in units of the returns' standard deviation.
            "value_norm": True,
            # (bool) Whether to start from orthogonal weights.
            "ppo_param_init": True,
            "grad_clip_type": None,
            "grad_clip_value": None,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.99, "gae_lambda": 0.95},
        "eval": {},
    }
    output_fields = ("action", "value")

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._samplers()
        if getattr(self._model, "share_encoder", False):
            raise PolicyConfigError("policy.model.share_encoder must be False: TRPO's actor and critic learn apart")
        if learn.max_kl <= 0:
            raise PolicyConfigError(f"policy.learn.max_kl must be above 0, found {learn.max_kl!r}")
        if learn.ppo_param_init:
            init_ppo_parameters(self._model)
        self._optimizer = clipping_adam(self._model.get_submodule("critic").parameters(), learn)
        self._init_value_norm()
        self._learn_model = model_wrap(self._model, wrapper_name="base")

    @batched
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """The step of the policy on all samples of one collection, and the epochs of the critic; returns floats, of the
        critic those of the last minibatch.
        """
        learn, batch = self._cfg.learn, self._learn_batch(data)
        batch["return"] = self._in_unit(batch["value"] * self._value_scale + batch["adv"], self._running_mean_std)
        if not self._model.training:
            self._model.train()
        numbers = read_out(dict(zip(_POLICY_NUMBERS, self._policy_step(batch))))
        for _ in range(learn.epoch_per_collect):
            logs = self._run_minibatches(batch, _CRITIC_FIELDS, learn.batch_size)
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **numbers, **logs[-1]}

    def _policy_step(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """One step of ``max mean(pi(a|s) / pi_old(a|s) A)`` with ``mean KL(pi_old || pi) <= max_kl``; returns
        ``_POLICY_NUMBERS``.
        """
        learn, weight = self._cfg.learn, batch.get("weight")
        adv = normalized(batch["adv"]) if learn.adv_norm else batch["adv"]
        parameters = list(self._model.get_submodule("actor").parameters())
        old = map_nested(torch.Tensor.detach, self._model(batch["obs"], mode="compute_actor")["logit"])

        def measures() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            logit = self._model(batch["obs"], mode="compute_actor")["logit"]
            log_ratio, kl, entropy = compared_policies(old, logit, batch["action"], action_mask_of(batch["obs"]))
            terms = log_ratio.exp() * adv, kl, entropy
            surrogate, divergence, spread = (weighted(term, weight).mean() for term in terms)
            return surrogate, divergence, spread

        surrogate, kl, entropy = measures()
        gradient = mean_of_ranks(flat(torch.autograd.grad(surrogate, parameters, retain_graph=True)))
        slope = flat(torch.autograd.grad(kl, parameters, create_graph=True))

        def fisher(vector: torch.Tensor) -> torch.Tensor:
            product = torch.autograd.grad(slope @ vector, parameters, retain_graph=True)
            return mean_of_ranks(flat(product)) + float(learn.cg_damping) * vector

        direction = conjugate_gradient(fisher, gradient, learn.cg_steps)
        curvature = direction @ fisher(direction)
        size = (2 * learn.max_kl / curvature.clamp(min=1e-12)).sqrt()
        start, before = flat(parameters).detach(), mean_of_ranks(surrogate.detach())
        with torch.no_grad():
            for _ in range(learn.line_search_steps + 1):
                assign(parameters, start + size * direction)
                after, kl, _ = (mean_of_ranks(value) for value in measures())
                if kl <= learn.max_kl and after > before:
                    return -after, kl, entropy, size, torch.ones_like(kl)
                size = size * learn.line_search_shrink
            assign(parameters, start)
        return -before, torch.zeros_like(kl), entropy, torch.zeros_like(size), torch.zeros_like(kl)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of the critic on a minibatch: ``0.5 mean (V(s) - R)^2``."""
        value = self._model(batch["obs"], mode="compute_critic")["value"]
        loss = 0.5 * weighted((value - batch["return"]).square(), batch.get("weight")).mean()
        self._optimize(loss, self._optimizer, self._model.get_submodule("critic"))
        return {"value_loss": loss, "value_mean": value.detach().mean()}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *_POLICY_NUMBERS, "value_loss", "value_mean"]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments with ``adv``."""
        batch = self._with_advantages(transitions, self._value_scale).without_columns("next_obs", "traj_flag")
        return get_train_sample(as_given(batch, transitions), self._unroll_len)
