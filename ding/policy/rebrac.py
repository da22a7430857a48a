"""ReBRAC: TD3 from data sets, whose actor and targets stay near the data (Tarasov et al. 2023, arXiv:2305.09836)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.policy._learning.critics import critic_losses, ensemble_q_values, priorities
from ding.policy._samples.following import FollowingFields
from ding.policy.td3 import TD3Policy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("rebrac")
class ReBRACPolicy(FollowingFields, TD3Policy):
    """TD3 with behaviour-regularised actor and critics, each by a weight of its own, and critics with layer
    normalisation; the rest is as in :class:`~ding.policy.td3.TD3Policy`.

    Samples have ``next_action``, the action of the data in ``next_obs``, and ``next_action_known``, 0.0 at time limits
    and at the end of the data, where there is no such action and a target has no penalty.
    """

    # Data sets hold the env's own actions.
    acts_in_unit_range = False

    config = {
        "type": "rebrac",
        # (int) Samples of random actions before the first update, where it learns without a data set.
        "random_collect_size": 0,
        "model": {
            "ensemble_num": 2,
            # (str or None) Normalisation in the critics: 'LN'.
            "norm_type": "LN",
            "actor_head_hidden_size": 256,
            "actor_head_layer_num": 2,
            "critic_head_hidden_size": 256,
            "critic_head_layer_num": 3,
        },
        "learn": {
            # (float) Weight of the distance from the data's action in the loss of the actor, beta_1: typically 0.001
            # to 1; higher values imitate more.
            "actor_penalty_weight": 0.01,
            # (float) Weight of this distance in the targets, beta_2: typically 0 to 0.5; higher values lower the value
            # of actions that the data do not show.
            "critic_penalty_weight": 0.01,
            # (bool) Whether the actor's Q values are divided by their mean size in the batch.
            "normalize_q": True,
        },
        "eval": {"evaluator": {"eval_freq": 5000}},
        "other": {"replay_buffer": {"replay_buffer_size": 1000000}},
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``ensemble_qac`` of :mod:`ding.model.template.ensemble_qac`."""
        return "ensemble_qac", ["ding.model.template.ensemble_qac"]

    def _update_critic(self, batch: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """One step of the critics on ``mean (Q_i(s, a) - R)^2`` with ``R = r + discount (min_i Q_i'(s', a') -
        critic_penalty_weight |a' - a'_data|^2)`` and ``a' = mu'(s')`` with noise.
        """
        with torch.no_grad():
            next_action = self._target_model.forward(batch["next_obs"], mode="compute_actor")["action"]
            next_action = next_action.reshape(batch["action"].shape)
            distance = (next_action - batch["next_action"]).square().sum(-1) * batch["next_action_known"]
            next_q = ensemble_q_values(self._target_model.forward, batch["next_obs"], next_action).amin(0)
            next_value = next_q - self._cfg.learn.critic_penalty_weight * distance
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        q = ensemble_q_values(self._model, batch["obs"], batch["action"])
        td_errors = q - target
        loss = critic_losses(td_errors, batch["weight"]).sum()
        self._optimize(loss, self._optimizer_critic, self._model.critic)
        numbers = {
            "priority": priorities(td_errors, self._reference_numerics),
            "td_error": td_errors.detach().square().mean(),
            "q_value": q.detach().mean(),
            "target q_value": next_value.mean(),
        }
        return {"critic_loss": loss}, numbers

    def _actor_loss(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """``mean (actor_penalty_weight |mu(s) - a|^2 - lambda min_i Q_i(s, mu(s)))`` with ``lambda = 1 / mean |Q|``, or
        1: 0-d.
        """
        learn, shown = self._cfg.learn, batch["action"]
        action = self._model(batch["obs"], mode="compute_actor")["action"].reshape(shown.shape)
        q = ensemble_q_values(self._model, batch["obs"], action).amin(0)
        scale = 1.0 / q.detach().abs().mean() if learn.normalize_q else 1.0
        loss: torch.Tensor = (learn.actor_penalty_weight * (action - shown).square().sum(-1) - scale * q).mean()
        return loss

    def _following_fields(self, columns: Mapping[str, Any], following: np.ndarray) -> dict[str, np.ndarray]:
        action = np.asarray(columns["action"])
        known = following >= 0
        return {
            "next_action": action[np.where(known, following, np.arange(len(action)))],
            "next_action_known": known.astype(np.float32),
        }
