"""Heterogeneous-agent PPO (Kuba et al. 2022, arXiv:2109.11251): agent by agent, the surrogate scaled by ``factor``.

``factor`` ``[B]`` or ``[B, 1]`` is the product of the ratios of the agents that were updated before.
"""

from collections import namedtuple

import torch

from ding.rl_utils._types import Data
from ding.rl_utils.surrogate import clipped_value_loss, surrogate_loss

happo_data = namedtuple("happo_data", "logit_new logit_old action value_new value_old adv return_ weight factor")
happo_policy_data = namedtuple("happo_policy_data", "logit_new logit_old action adv weight factor")
happo_value_data = namedtuple("happo_value_data", "value_new value_old return_ weight")
happo_loss = namedtuple("happo_loss", "policy_loss value_loss entropy_loss")
happo_policy_loss = namedtuple("happo_policy_loss", "policy_loss entropy_loss")
happo_info = namedtuple("happo_info", "approx_kl clipfrac")


def happo_policy_error(
    data: Data, clip_ratio: float = 0.2, dual_clip: float | None = None
) -> tuple[happo_policy_loss, happo_info]:
    """Clipped policy loss and entropy.

    ``data``: ``happo_policy_data``; logits ``[B, N]`` and action int64 ``[B]``, or mappings with mu and sigma
    ``[B, D]`` and action ``[B, D]``; adv and weight ``[B]``. Raises ``AssertionError`` unless ``dual_clip`` is ``None``
    or above 1.
    """
    new, old, action, adv, weight, factor = data
    found = surrogate_loss(new, old, action, adv, weight, clip_ratio, dual_clip, factor=factor)
    info = happo_info(found.approx_kl.item(), found.clipfrac.item())
    return happo_policy_loss(found.policy_loss, found.entropy_loss), info


#: The outputs determine the kind of policy.
happo_policy_error_continuous = happo_policy_error


def happo_value_error(data: Data, clip_ratio: float = 0.2, use_value_clip: bool = True) -> torch.Tensor:
    """Clipped value loss, 0-d. ``data``: ``happo_value_data``; all ``[B]``."""
    value_new, value_old, return_, weight = data
    return clipped_value_loss(value_new, value_old, return_, weight, clip_ratio, use_value_clip)


def happo_error(
    data: Data, clip_ratio: float = 0.2, use_value_clip: bool = True, dual_clip: float | None = None
) -> tuple[happo_loss, happo_info]:
    """:func:`happo_policy_error` and :func:`happo_value_error` together. ``data``: ``happo_data``."""
    new, old, action, value_new, value_old, adv, return_, weight, factor = data
    policy, info = happo_policy_error((new, old, action, adv, weight, factor), clip_ratio, dual_clip)
    value = clipped_value_loss(value_new, value_old, return_, weight, clip_ratio, use_value_clip)
    return happo_loss(policy.policy_loss, value, policy.entropy_loss), info


def happo_error_continuous(
    data: Data, clip_ratio: float = 0.2, use_value_clip: bool = True, dual_clip: float | None = None
) -> tuple[happo_loss, happo_info]:
    """:func:`happo_error` for mappings with mu and sigma ``[B, D]`` instead of logits.

    Entropy and KL are means over the action dimensions here, not sums: weights of DI-engine are tuned to that.
    """
    loss, info = happo_error(data, clip_ratio, use_value_clip, dual_clip)
    num_dims = data[0]["mu"].shape[-1]
    return loss._replace(entropy_loss=loss.entropy_loss / num_dims), info._replace(approx_kl=info.approx_kl / num_dims)
