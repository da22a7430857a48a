"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347); dual clip of Ye et al. 2020, arXiv:1912.09729.

Notation: B batch, N actions, D action dimensions. ``weight=None`` counts as ones. ``logit_pretrained`` (``None`` and
may be left out) is the output of a reference policy, towards which ``kl_div`` measures the distance.
"""

from collections import namedtuple

import torch

from ding.rl_utils._types import Data
from ding.rl_utils.surrogate import calculate_kl_div as calculate_kl_div
from ding.rl_utils.surrogate import clipped_value_loss, surrogate_loss

ppo_data = namedtuple(
    "ppo_data", "logit_new logit_old action value_new value_old adv return_ weight logit_pretrained", defaults=[None]
)
ppo_data_continuous = namedtuple(
    "ppo_data_continuous",
    "mu_sigma_new mu_sigma_old action value_new value_old adv return_ weight logit_pretrained",
    defaults=[None],
)
ppo_policy_data = namedtuple(
    "ppo_policy_data", "logit_new logit_old action adv weight logit_pretrained", defaults=[None]
)
ppo_policy_data_continuous = namedtuple(
    "ppo_policy_data_continuous", "mu_sigma_new mu_sigma_old action adv weight logit_pretrained", defaults=[None]
)
ppo_value_data = namedtuple("ppo_value_data", "value_new value_old return_ weight")
ppo_loss = namedtuple("ppo_loss", "policy_loss value_loss entropy_loss kl_div")
ppo_policy_loss = namedtuple("ppo_policy_loss", "policy_loss entropy_loss kl_div")
ppo_info = namedtuple("ppo_info", "approx_kl clipfrac")


def _policy_error(
    data: Data,
    clip_ratio: float,
    dual_clip: float | None,
    kl_type: str,
    entropy_bonus: bool = True,
    dual_clip_both_signs: bool = False,
) -> tuple[ppo_policy_loss, ppo_info]:
    new, old, action, adv, weight, pretrained = data
    found = surrogate_loss(
        new, old, action, adv, weight, clip_ratio, dual_clip,
        dual_clip_both_signs=dual_clip_both_signs, pretrained=pretrained, kl_type=kl_type,
    )  # fmt: skip
    entropy = found.entropy_loss if entropy_bonus else torch.zeros_like(found.entropy_loss)
    info = ppo_info(found.approx_kl.item(), found.clipfrac.item())
    return ppo_policy_loss(found.policy_loss, entropy, found.kl_div), info


def ppo_policy_error(
    data: Data,
    clip_ratio: float = 0.2,
    dual_clip: float | None = None,
    entropy_bonus: bool = True,
    kl_type: str = "k1",
) -> tuple[ppo_policy_loss, ppo_info]:
    """Clipped policy loss and entropy of a discrete policy.

    ``data``: ``ppo_policy_data``; logits ``[B, N]``, action int64 ``[B]``, adv and weight ``[B]``. With more than one
    action per sample (logits ``[B, M, N]``, action ``[B, M]``) ratio and entropy are averaged over them. ``dual_clip``
    bounds the loss of samples with negative advantage, typically 3 to 5; ``None`` disables it. Raises
    ``AssertionError`` unless ``dual_clip`` is ``None`` or above 1.
    """
    return _policy_error(data, clip_ratio, dual_clip, kl_type, entropy_bonus)


def ppo_policy_error_continuous(
    data: Data,
    clip_ratio: float = 0.2,
    dual_clip: float | None = None,
    kl_type: str = "k1",
    reference_numerics: bool = False,
) -> tuple[ppo_policy_loss, ppo_info]:
    """Clipped policy loss and entropy of a policy of independent normals.

    ``data``: ``ppo_policy_data_continuous``; the policies are mappings with mu and sigma ``[B, D]``, action ``[B, D]``,
    adv and weight ``[B]``. ``reference_numerics`` applies ``dual_clip`` to positive advantages too, as DI-engine does.
    """
    return _policy_error(data, clip_ratio, dual_clip, kl_type, dual_clip_both_signs=reference_numerics)


def ppo_value_error(data: Data, clip_ratio: float = 0.2, use_value_clip: bool = True) -> torch.Tensor:
    """Clipped value loss, 0-d. ``data``: ``ppo_value_data``; all ``[B]``."""
    value_new, value_old, return_, weight = data
    return clipped_value_loss(value_new, value_old, return_, weight, clip_ratio, use_value_clip)


def ppo_error(
    data: Data,
    clip_ratio: float = 0.2,
    use_value_clip: bool = True,
    dual_clip: float | None = None,
    kl_type: str = "k1",
    reference_numerics: bool = False,
) -> tuple[ppo_loss, ppo_info]:
    """Return the policy loss and :func:`ppo_value_error` together.

    ``data``: ``ppo_data``, as :func:`ppo_policy_error` has it, or ``ppo_data_continuous``, as
    :func:`ppo_policy_error_continuous` has it; ``reference_numerics`` is that of the latter.
    """
    new, old, action, value_new, value_old, adv, return_, weight, pretrained = data
    terms = (new, old, action, adv, weight, pretrained)
    policy, info = _policy_error(terms, clip_ratio, dual_clip, kl_type, dual_clip_both_signs=reference_numerics)
    value = clipped_value_loss(value_new, value_old, return_, weight, clip_ratio, use_value_clip)
    return ppo_loss(policy.policy_loss, value, policy.entropy_loss, policy.kl_div), info


#: The outputs determine the kind of policy.
ppo_error_continuous = ppo_error
