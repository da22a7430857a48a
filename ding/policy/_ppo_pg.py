"""The policy part of PPO without a critic."""

import functools
from typing import Any

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._learning.optimization import clipping_adam
from ding.policy._policy_gradient import EpisodePolicy
from ding.policy._ppo_learning import init_ppo_parameters, logged, ppo_settings
from ding.policy._ppo_loss import PPOSettings, policy_terms
from ding.policy._samples.segments import minibatches
from ding.utils import POLICY_REGISTRY

_FIELDS = ("obs", "action", "logit", "return", "weight")
_LOGGED = ("total_loss", "policy_loss", "entropy_loss", "approx_kl", "clipfrac")


@POLICY_REGISTRY.register("ppo_pg")
class PPOPGPolicy(EpisodePolicy):
    """PPO (arXiv:1707.06347) with the returns of whole episodes in the place of advantages."""

    config = {
        "type": "ppo_pg",
        "on_policy": True,
        # (str) 'discrete', 'continuous' or 'hybrid'.
        "action_space": "discrete",
        "multi_agent": False,
        "transition_with_policy_data": True,
        "learn": {
            # (int) How often all samples of a collection are gone through.
            "epoch_per_collect": 10,
            "batch_size": 64,
            "learning_rate": 3e-4,
            "entropy_weight": 0.0,
            "clip_ratio": 0.2,
            # (bool) Whether to start from orthogonal weights.
            "ppo_param_init": True,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": 0.5,
            # Not supported: a return needs the end of the episode.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.99},
        "eval": {},
    }
    output_fields = ("action", "logit")

    @functools.cached_property
    def _settings(self) -> PPOSettings:
        return ppo_settings(self._cfg)

    def _init_learn(self) -> None:
        if self._cfg.learn.ppo_param_init:
            init_ppo_parameters(self._model)
        self._optimizer = clipping_adam(self._model.parameters(), self._cfg.learn)
        self._learn_model = self._model

    @batched
    def _forward_learn(self, data: Samples) -> list[dict[str, Any]]:
        """``epoch_per_collect`` epochs over B samples with ``return``; returns a dict of floats per minibatch."""
        cfg = self._cfg.learn
        batch = self._tensors(data)
        results = []
        if not self._model.training:
            self._model.train()
        for _ in range(cfg.epoch_per_collect):
            for part in minibatches(batch, _FIELDS, cfg.batch_size):
                terms = policy_terms(self._model(part["obs"])["logit"], part, part["return"], self._settings)
                loss = terms.policy_loss - cfg.entropy_weight * terms.entropy_loss
                self._optimize(loss, self._optimizer, self._model)
                results.append((loss, terms.policy_loss, terms.entropy_loss, terms.approx_kl, terms.clipfrac))
        rate = self._optimizer.param_groups[0]["lr"]
        return [{"cur_lr": rate, **numbers} for numbers in logged(results, _LOGGED)]

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *_LOGGED]
