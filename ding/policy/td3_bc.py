"""TD3+BC: TD3 from data sets, with an actor that stays near the data (Fujimoto and Gu 2021, arXiv:2106.06860)."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ding.policy.td3 import TD3Policy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("td3_bc")
class TD3BCPolicy(TD3Policy):
    """TD3 whose actor also imitates the data; the rest is as in :class:`TD3Policy`.

    The targets' actions get noise once; DI-engine adds it twice.
    """

    # Data sets hold the env's own actions.
    acts_in_unit_range = False

    config = {
        "type": "td3_bc",
        "model": {"action_space": "regression", "actor_head_hidden_size": 256, "critic_head_hidden_size": 256},
        "learn": {
            # (float) Weight of the Q function beside the imitation.
            "alpha": 2.5,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": 1.0,
        },
        "eval": {"evaluator": {"eval_freq": 5000}},
        "other": {"replay_buffer": {"replay_buffer_size": 1000000}},
    }

    def _actor_loss(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """``-alpha mean Q(s, mu(s)) / mean |Q(s, mu(s))| + mean (mu(s) - a)^2`` by the first critic: 0-d."""
        action, output = batch["action"], self._model(batch["obs"], mode="compute_actor")
        q = self._first_q(batch["obs"], output)
        scale = self._cfg.learn.alpha / q.detach().abs().mean()
        result: torch.Tensor = -scale * q.mean() + F.mse_loss(output["action"].reshape(action.shape), action)
        return result
