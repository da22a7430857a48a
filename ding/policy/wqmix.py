"""Weighted QMIX: joint actions that may be the best ones count more (Rashid et al. 2020, arXiv:2006.10800)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.model.template.wqmix import WQMix
from ding.policy._learning.q_values import greedy
from ding.policy._samples.joint_sequences import JOINT_Q_CONFIG
from ding.policy.qmix import QMIXPolicy
from ding.utils import POLICY_REGISTRY, deep_merge_dicts


@POLICY_REGISTRY.register("wqmix")
class WQMIXPolicy(QMIXPolicy):
    """QMIX that is drawn towards an unrestricted joint value, ``Q*``, which is learned beside it.

    The targets are those of a target network of ``Q*``; with ``reference_numerics=True`` of ``Q*`` itself, as in
    DI-engine.
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

    _model: WQMix

    def default_model(self) -> tuple[str, list[str]]:
        """``wqmix`` of :mod:`ding.model.template.wqmix`."""
        return "wqmix", ["ding.model.template.wqmix"]

    @property
    def _double_q(self) -> bool:
        # The learner chooses what is valued in any case (arXiv:2006.10800).
        return True

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        model = self._model
        self._plain = torch.nn.ModuleList([model._q_network, model._mixer])
        self._star = torch.nn.ModuleList([model._q_network_star, model._mixer_star])
        self._optimizer, self._optimizer_star = (self._make_optimizer(part, 0.0) for part in (self._plain, self._star))
        self._alpha = float(learn.get("alpha", learn.w))

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of both joint values towards ``R = r + discount Q*'(s', a')``, ``a'`` the best actions by
        ``Q_tot``.

        ``Q*`` minimises ``mean (Q* - R)^2``, and ``Q_tot`` minimises ``mean w (Q_tot - R)^2``. ``w`` is 1 where
        ``Q_tot`` is too low (optimistic weights), or where the joint action is the best one or worth more than it
        (central weights), and ``alpha`` elsewhere. Logs ``grad_norm_q`` and ``grad_norm_q_star`` instead of one norm.
        """
        now, following = self._learner_outputs(batch)
        assert following is not None  # self._double_q
        total_q = now["total_q"]
        star = self._outputs(self._model, batch, q_star=True)["total_q"]
        target_network, start = self._target_network.forward, None
        if self._reference_numerics:
            target_network, start = self._model, self._second_state(batch, now)
        with torch.no_grad():
            next_best = greedy(following["logit"], batch["next_action_mask"])
            next_q = self._next_outputs(target_network, batch, next_best, start, q_star=True)["total_q"]
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_q
            if self._cfg.learn.wqmix_ow:
                full = total_q < target
            else:
                best = greedy(now["logit"], batch["action_mask"])
                best_value = self._outputs(self._model, batch, best, q_star=True)["total_q"]
                full = (best == batch["action"]).all(-1) | (target > best_value)
            w = torch.where(full, 1.0, self._alpha)
        loss = (batch["weight"] * w * (total_q - target).square()).mean()
        loss_star = (batch["weight"] * (star - target).square()).mean()
        norm = self._limited_step(loss, self._optimizer, self._plain)
        norm_star = self._limited_step(loss_star, self._optimizer_star, self._star)
        self._target_model.update(self._model)
        means = self._per_agent(batch, total_q=total_q, target_reward_total_q=target, target_total_q=next_q)
        return {"total_loss": loss, **means, "grad_norm_q": norm, "grad_norm_q_star": norm_star}

    def _monitor_vars_learn(self) -> list[str]:
        names = [name for name in super()._monitor_vars_learn() if name != "grad_norm"]
        return [*names, "grad_norm_q", "grad_norm_q_star"]
