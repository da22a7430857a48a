"""The constants of PPO's loss, and its surrogate."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ding.rl_utils.policy_dist import action_mask_of
from ding.rl_utils.surrogate import Surrogate, surrogate_loss


class PPOSettings(NamedTuple):
    """The constants of :func:`ding.policy.ppo.ppo_loss`."""

    clip_ratio: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.0
    #: Bound of the loss of very bad samples (arXiv:1912.09729), above 1.
    dual_clip: float | None = None
    #: Weight and estimator of the distance to a pretrained policy.
    kl_beta: float = 0.0
    kl_type: str = "k1"
    adv_norm: bool = False
    #: As DI-engine: forbidden actions stay in the distributions, dual clip of both signs of continuous actions.
    reference_numerics: bool = False

    def surrogate(self, logit: Any, batch: Mapping[str, Any], adv: torch.Tensor) -> Surrogate:
        """Return the clipped surrogate of the policy ``logit``, with its entropy: :func:`ding.rl_utils.surrogate_loss`.

        Args:
            batch: ``obs, action, logit`` (of the policy that collected); optional ``weight, logit_pretrained``.
            adv: ``[B]`` (``[B, agents]``).
        """
        return surrogate_loss(
            logit, batch["logit"], batch["action"], adv, batch.get("weight"), self.clip_ratio, self.dual_clip,
            dual_clip_both_signs=self.reference_numerics,
            action_mask=None if self.reference_numerics else action_mask_of(batch["obs"]),
            pretrained=batch.get("logit_pretrained"), kl_type=self.kl_type,
        )  # fmt: skip

    @classmethod
    def of(cls, cfg: Mapping[str, Any]) -> "PPOSettings":
        """Return those of the ``policy`` section of a config."""
        known = {key: cfg["learn"][key] for key in cls._fields if key in cfg["learn"]}
        return cls(**known, reference_numerics=bool(cfg.get("reference_numerics", False)))
