"""Weighted QMIX: joint actions that may be the best ones count more (Rashid et al. 2020, arXiv:2006.10800)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._joint_q import JOINT_Q_CONFIG
from ding.policy._joint_q_loss import wqmix_loss
from ding.policy.qmix import QMIXPolicy
from ding.utils import POLICY_REGISTRY, deep_merge_dicts


@POLICY_REGISTRY.register("wqmix")
class WQMIXPolicy(QMIXPolicy):
    """QMIX that is drawn towards an unrestricted joint value, ``Q*``, which is learned beside it.

    The targets are those of a target network of ``Q*``; with ``reference_numerics=True`` of ``Q*`` itself, as in the
    original API.
    """

    optional_keys = {"learn": "alpha"}

    config = {
        "type": "wqmix",
        **deep_merge_dicts(
            JOINT_Q_CONFIG,
            {
                "learn": {
                    # (float) Weight of joint actions that are not to be approached; ``alpha`` is another name for it.
                    "w": 0.5,
                    # (bool) Full weight where the value is too low, else where the joint action may be the best one.
                    "wqmix_ow": True,
                },
                "other": {"replay_buffer": {"max_reuse": 1e9, "max_staleness": 1e9}},
            },
        ),
    }
    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer": "_optimizer",
        "optimizer_star": "_optimizer_star",
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``wqmix`` of :mod:`ding.model.template.wqmix`."""
        return "wqmix", ["ding.model.template.wqmix"]

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        # The learner chooses what is valued in any case (arXiv:2006.10800).
        self._settings = self._settings._replace(double_q=True)
        model: Any = self._model
        self._plain = torch.nn.ModuleList([model._q_network, model._mixer])
        self._star = torch.nn.ModuleList([model._q_network_star, model._mixer_star])
        self._optimizer, self._optimizer_star = (self._make_optimizer(part, 0.0) for part in (self._plain, self._star))
        self._alpha = float(learn.get("alpha", learn.w))

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of both joint values; logs ``grad_norm_q`` and ``grad_norm_q_star`` in the place of one norm."""
        target = self._model if self._reference_numerics else self._target_network.forward
        optimistic = self._cfg.learn.wqmix_ow
        result = wqmix_loss(self._model, target, batch, self._settings, self._alpha, optimistic)
        limit = self._cfg.learn.clip_value
        norm = self._limited_step(result.loss, self._optimizer, self._plain, limit)
        norm_star = self._limited_step(result.loss_star, self._optimizer_star, self._star, limit)
        self._target_model.update(self._model)
        return {"total_loss": result.loss, **result.numbers, "grad_norm_q": norm, "grad_norm_q_star": norm_star}

    def _monitor_vars_learn(self) -> list[str]:
        names = [name for name in super()._monitor_vars_learn() if name != "grad_norm"]
        return [*names, "grad_norm_q", "grad_norm_q_star"]
