"""RLPD: online learning from half a batch of data and half of its own (Ball et al. 2023, arXiv:2302.02948)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy.redq import REDQPolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("rlpd")
class RLPDPolicy(REDQPolicy):
    """Reinforcement learning with prior data: :class:`~ding.policy.redq.REDQPolicy` with layer normalisation in the
    critics, without an entropy in its targets if ``learn.with_q_entropy=False``, and with batches of which the
    pipeline ``serial_pipeline_finetune`` takes half from a data set. It starts from nothing and plays from the
    beginning.

    The target entropy is minus half the number of dimensions of the action.
    """

    config = {
        "type": "rlpd",
        "model": {
            # (str or None) Normalisation in the critics: 'LN'.
            "norm_type": "LN",
        },
        "learn": {
            # (bool) Whether targets hold the entropy of the policy; the paper has it so, but for sparse rewards.
            "with_q_entropy": True,
        },
    }

    def _default_entropy(self) -> float:
        return super()._default_entropy() / 2

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        return super()._update_critic(batch, alpha if self._cfg.learn.with_q_entropy else torch.zeros_like(alpha))
