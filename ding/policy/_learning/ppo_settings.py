"""The constants of PPO's loss."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ding.policy.errors import PolicyConfigError


def moved_means(logit: Any, alpha: float) -> dict[str, Any]:
    """Return the output of a policy with uniform noise in ``[-alpha, alpha]`` added to the means of its actions.

    Raises:
        PolicyConfigError: it has no means.
    """
    if isinstance(logit, Mapping) and "action_args" in logit:
        return {**logit, "action_args": moved_means(logit["action_args"], alpha)}
    if not isinstance(logit, Mapping) or "mu" not in logit:
        raise PolicyConfigError(f"policy.learn.rpo_alpha={alpha}: only continuous actions have means to move")
    mu = logit["mu"]
    return {**logit, "mu": mu + alpha * (2 * torch.rand_like(mu) - 1)}


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
    #: Means of continuous actions move by uniform noise in ``[-rpo_alpha, rpo_alpha]`` (RPO, arXiv:2212.07536).
    rpo_alpha: float = 0.0
    #: As DI-engine: forbidden actions stay in the distributions, dual clip of both signs of continuous actions.
    reference_numerics: bool = False

    @classmethod
    def of(cls, cfg: Mapping[str, Any]) -> "PPOSettings":
        """Return those of the ``policy`` section of a config."""
        known = {key: cfg["learn"][key] for key in cls._fields if key in cfg["learn"]}
        return cls(**known, reference_numerics=bool(cfg.get("reference_numerics", False)))
