"""Policy gradient without a critic (Williams 1992, "Simple statistical gradient-following algorithms", REINFORCE)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._acting.episode import EpisodePolicy
from ding.policy._learning.optimization import clipping_adam
from ding.rl_utils.policy_dist import action_mask_of, policy_of, policy_parts
from ding.utils import POLICY_REGISTRY

_FIELDS = ("obs", "action", "return")
_LOGGED = ("total_loss", "policy_loss", "entropy_loss", "return_abs_max", "grad_norm")


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
        batch = self._learn_batch(data)
        if not self._model.training:
            self._model.train()
        logs = self._run_minibatches(batch, _FIELDS, self._cfg.learn.batch_size)
        return [{"cur_lr": self._optimizer.param_groups[0]["lr"], **log} for log in logs]

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update on a minibatch: ``-mean(log pi(a | s) R) - entropy_weight H(pi)``, ``R`` the discounted return."""
        learn = self._cfg.learn
        mask = None if self._reference_numerics else action_mask_of(batch["obs"])
        parts = policy_parts(self._model(batch["obs"])["logit"], batch["action"], mask)
        policies = [(policy_of(output), action) for output, action in parts]
        log_prob = torch.stack([policy.log_prob(action) for policy, action in policies]).sum(0)
        entropy = torch.stack([policy.entropy() for policy, _ in policies]).sum(0)
        policy_loss = -(log_prob * batch["return"]).mean()
        entropy_loss = -learn.entropy_weight * entropy.mean()
        loss = policy_loss + entropy_loss
        norm = self._optimize(loss, self._optimizer, self._model, learn.grad_norm)
        assert norm is not None  # there is a limit
        return {
            "total_loss": loss,
            "policy_loss": policy_loss,
            "entropy_loss": entropy_loss,
            "return_abs_max": batch["return"].abs().max(),
            "grad_norm": norm,
        }

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *_LOGGED]

    def _init_eval(self) -> None:
        draw, best = self._samplers()
        self._eval_model = model_wrap(self._model, wrapper_name=best if self._cfg.deterministic_eval else draw)
        self._eval_model.reset()
