"""A2C: advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783, with one synchronous learner)."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._acting.stochastic import StochasticPolicy
from ding.policy._learning.optimization import clipping_adam
from ding.policy._policy_parts import action_mask_of, policy_parts
from ding.policy._ppo_loss import normalized
from ding.policy._samples.segments import as_given
from ding.rl_utils import a2c_data, a2c_error, get_train_sample
from ding.utils import POLICY_REGISTRY

_FIELDS = ("obs", "action", "value", "adv", "weight")


class A2CLoss(NamedTuple):
    """What :func:`a2c_loss` returns, each 0-d; only ``total_loss`` carries gradients that are used."""

    total_loss: torch.Tensor
    policy_loss: torch.Tensor
    value_loss: torch.Tensor
    entropy_loss: torch.Tensor
    adv_abs_max: torch.Tensor


def a2c_loss(
    network: Callable[[Any], Mapping[str, Any]],
    batch: Mapping[str, Any],
    value_weight: float,
    entropy_weight: float,
    adv_norm: bool = False,
    reference_numerics: bool = False,
) -> A2CLoss:
    """Policy gradient with advantages, squared error of the value, entropy bonus.

    Args:
        network: observations to ``logit`` and ``value`` ``[B]``.
        batch: ``obs, action``; ``value, adv`` ``[B]`` of the policy that collected; ``weight`` (or None).
        adv_norm: normalise the advantages, but not the returns.
        reference_numerics: leave forbidden actions in the distribution.
    """
    output, adv = network(batch["obs"]), batch["adv"]
    return_ = batch["value"] + adv
    if adv_norm:
        adv = normalized(adv)
    mask = None if reference_numerics else action_mask_of(batch["obs"])
    losses = [
        a2c_error(a2c_data(logit, action, output["value"], adv, return_, batch.get("weight")))
        for logit, action in policy_parts(output["logit"], batch["action"], mask)
    ]
    policy_loss = torch.stack([loss.policy_loss for loss in losses]).sum()
    entropy_loss = torch.stack([loss.entropy_loss for loss in losses]).sum()
    value_loss = losses[0].value_loss
    total = policy_loss + value_weight * value_loss - entropy_weight * entropy_loss
    return A2CLoss(total, policy_loss, value_loss, entropy_loss, adv.abs().max())


@POLICY_REGISTRY.register("a2c")
class A2CPolicy(StochasticPolicy):
    """Advantage actor-critic for discrete and continuous actions: one pass over the samples of a collection."""

    config = {
        "type": "a2c",
        "on_policy": True,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        # (str) 'discrete' or 'continuous'.
        "action_space": "discrete",
        "learn": {
            # Kept for configs of the original API; a collection is gone through once.
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
        batch = self._tensors(data)
        if not self._model.training:
            self._model.train()
        last = self._run_minibatches(batch, _FIELDS, cfg.batch_size)[-1]
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **last}

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        cfg = self._cfg.learn
        loss = a2c_loss(
            self._actor_critic, batch, cfg.value_weight, cfg.entropy_weight, cfg.adv_norm, self._reference_numerics
        )
        norm = self._optimize(loss.total_loss, self._optimizer, self._model, cfg.grad_norm)
        assert norm is not None  # there is a limit
        return {**loss._asdict(), "grad_norm": norm}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *A2CLoss._fields, "grad_norm"]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments with ``adv``."""
        return get_train_sample(as_given(self._with_advantages(transitions), transitions), self._unroll_len)
