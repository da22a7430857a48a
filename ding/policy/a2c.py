"""A2C: advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783, with one synchronous learner)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._acting.stochastic import StochasticPolicy
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import weighted
from ding.policy._samples.segments import as_given
from ding.policy.ppo import normalized
from ding.rl_utils import get_train_sample
from ding.rl_utils.policy_dist import action_mask_of, policy_of, policy_parts
from ding.utils import POLICY_REGISTRY

_FIELDS = ("obs", "action", "value", "adv", "weight")


@POLICY_REGISTRY.register("a2c")
class A2CPolicy(StochasticPolicy):
    """Advantage actor-critic for discrete and continuous actions: one pass over the samples of a collection."""

    _learns_from_transitions = False

    config = {
        "type": "a2c",
        "on_policy": True,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        # (str) 'discrete' or 'continuous'.
        "action_space": "discrete",
        "learn": {
            # Kept for configs of DI-engine; a collection is gone through once.
            "update_per_collect": 1,
            "batch_size": 64,
            "learning_rate": 0.001,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            # (float) Limit of the 2-norm of the gradient.
            "grad_norm": 0.5,
            # (str or None) How gradients are clipped, and the limit.
            "grad_clip_type": None,
            "grad_clip_value": None,
            "value_weight": 0.5,
            "entropy_weight": 0.01,
            # (bool) Whether advantages are normalised in each minibatch.
            "adv_norm": False,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.9, "gae_lambda": 0.95},
        "eval": {},
    }
    output_fields = ("action", "value")

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._samplers()
        self._optimizer = clipping_adam(self._model.parameters(), learn, betas=tuple(learn.betas), eps=learn.eps)
        self._learn_model = model_wrap(self._model, wrapper_name="base")
        self._learn_model.reset()

    @batched
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """One pass over B samples; returns the floats of the last minibatch."""
        cfg = self._cfg.learn
        batch = self._learn_batch(data)
        if not self._model.training:
            self._model.train()
        last = self._run_minibatches(batch, _FIELDS, cfg.batch_size)[-1]
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **last}

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update on a minibatch: ``-mean(log pi(a | s) A) + value_weight mean (V(s) - R)^2 - entropy_weight H(pi)``
        with ``R = V_old(s) + A``, and advantages ``A`` of the policy that collected.
        """
        learn, weight = self._cfg.learn, batch.get("weight")
        output, adv = self._actor_critic(batch["obs"]), batch["adv"]
        return_ = batch["value"] + adv
        if learn.adv_norm:
            adv = normalized(adv)
        mask = None if self._reference_numerics else action_mask_of(batch["obs"])
        parts = policy_parts(output["logit"], batch["action"], mask)
        policies = [(policy_of(part), action) for part, action in parts]
        log_prob = torch.stack([policy.log_prob(action) for policy, action in policies]).sum(0)
        entropy = torch.stack([policy.entropy() for policy, _ in policies]).sum(0)
        policy_loss = -weighted(log_prob * adv, weight).mean()
        value_loss = weighted((return_ - output["value"]).square(), weight).mean()
        entropy_loss = weighted(entropy, weight).mean()
        loss = policy_loss + learn.value_weight * value_loss - learn.entropy_weight * entropy_loss
        norm = self._optimize(loss, self._optimizer, self._model, learn.grad_norm)
        assert norm is not None  # there is a limit
        losses = {
            "total_loss": loss,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy_loss": entropy_loss,
        }
        return {**losses, "adv_abs_max": adv.abs().max(), "grad_norm": norm}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "policy_loss", "value_loss", "entropy_loss", "adv_abs_max", "grad_norm"]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments with ``adv``."""
        return get_train_sample(as_given(self._with_advantages(transitions), transitions), self._unroll_len)
