"""Policy gradient without a critic (Williams 1992, "Simple statistical gradient-following algorithms", REINFORCE)."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._learning.optimization import clipping_adam
from ding.policy._policy_gradient import EpisodePolicy
from ding.policy._policy_parts import action_mask_of, policy_parts
from ding.policy._ppo_learning import logged
from ding.policy._samples.segments import minibatches
from ding.rl_utils.policy_dist import policy_of
from ding.utils import POLICY_REGISTRY

_FIELDS = ("obs", "action", "return")
_LOGGED = ("total_loss", "policy_loss", "entropy_loss", "return_abs_max", "grad_norm")


def pg_loss(
    network: Callable[[Any], Mapping[str, Any]],
    batch: Mapping[str, Any],
    entropy_weight: float,
    reference_numerics: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``-mean(log pi(a) R) - entropy_weight mean(H)``.

    Args:
        network: observations to ``logit``.
        batch: ``obs, action, return`` ``[B]``.
        reference_numerics: leave forbidden actions in the distribution.

    Returns:
        total loss, policy loss and entropy loss (the entropy times ``-entropy_weight``), each 0-d.
    """
    mask = None if reference_numerics else action_mask_of(batch["obs"])
    parts = policy_parts(network(batch["obs"])["logit"], batch["action"], mask)
    policies = [(policy_of(output), action) for output, action in parts]
    log_prob = torch.stack([policy.log_prob(action) for policy, action in policies]).sum(0)
    policy_loss = -(log_prob * batch["return"]).mean()
    entropy_loss = -entropy_weight * torch.stack([policy.entropy() for policy, _ in policies]).sum(0).mean()
    return policy_loss + entropy_loss, policy_loss, entropy_loss


@POLICY_REGISTRY.register("pg")
class PGPolicy(EpisodePolicy):
    """Policy gradient on the returns of whole episodes, for discrete and continuous actions."""

    config = {
        "type": "pg",
        "on_policy": True,
        # (str) 'discrete' or 'continuous'.
        "action_space": "discrete",
        # (bool) Whether evaluation takes the most likely action, and does not draw one.
        "deterministic_eval": True,
        "learn": {
            "batch_size": 64,
            "learning_rate": 0.001,
            "entropy_weight": 0.01,
            # (float) Limit of the 2-norm of the gradient.
            "grad_norm": 5,
            # (str or None) How gradients are clipped, and the limit.
            "grad_clip_type": None,
            "grad_clip_value": None,
            # Not supported: a return needs the end of the episode.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.99, "collector": {"get_train_sample": True}},
        "eval": {},
    }

    def _init_learn(self) -> None:
        self._optimizer = clipping_adam(self._model.parameters(), self._cfg.learn)
        self._learn_model = self._model

    @batched
    def _forward_learn(self, data: Samples) -> list[dict[str, Any]]:
        """One pass over B samples with ``return``; returns a dict of floats per minibatch."""
        cfg = self._cfg.learn
        batch = self._tensors(data)
        if not self._model.training:
            self._model.train()
        results = []
        for part in minibatches(batch, _FIELDS, cfg.batch_size):
            losses = pg_loss(self._model, part, cfg.entropy_weight, self._reference_numerics)
            norm = self._optimize(losses[0], self._optimizer, self._model, cfg.grad_norm)
            results.append((*losses, part["return"].abs().max(), norm))
        rate = self._optimizer.param_groups[0]["lr"]
        return [{"cur_lr": rate, **numbers} for numbers in logged(results, _LOGGED)]

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *_LOGGED]

    def _init_eval(self) -> None:
        draw, best = self._samplers()
        self._eval_model = model_wrap(self._model, wrapper_name=best if self._cfg.deterministic_eval else draw)
        self._eval_model.reset()
