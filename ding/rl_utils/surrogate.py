"""The clipped surrogate objective and the clipped value loss of the PPO family."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ding.rl_utils.policy_dist import policy_of, policy_parts, weighted
from ding.utils.names import did_you_mean


class Surrogate(NamedTuple):
    """Result of :func:`surrogate_loss`: three 0-d losses and two 0-d statistics.

    All are tensors, so the computation does not synchronise with a device and can be compiled.
    """

    policy_loss: torch.Tensor
    entropy_loss: torch.Tensor
    #: Distance to a pretrained policy.
    kl_div: torch.Tensor
    #: Mean of ``log pi_old - log pi_new`` (signed), and the share of clipped ratios.
    approx_kl: torch.Tensor
    clipfrac: torch.Tensor


def surrogate_loss(
    new: Any,
    old: Any,
    action: Any,
    adv: torch.Tensor,
    weight: torch.Tensor | None,
    clip_ratio: float = 0.2,
    dual_clip: float | None = None,
    *,
    dual_clip_both_signs: bool = False,
    factor: torch.Tensor | None = None,
    action_mask: Any = None,
    pretrained: Any = None,
    kl_type: str = "k1",
) -> Surrogate:
    """``-min(ratio A, clip(ratio) A)``, bounded by ``dual_clip A`` where A is negative, and the entropy.

    Of an action of several parts (see :func:`~ding.rl_utils.policy_dist.policy_parts`) losses are summed up, and the
    statistics are the largest ones. With more actions than advantages, ratio and entropy are averaged over dim 1.

    Args:
        new, old, pretrained: outputs of the policies: the one that learns, the one that collected, and one to stay near
            to (None for none).
        action: Actions taken.
        adv, weight, factor: ``[B]``; the factor scales the minimum, but not the bound.
        dual_clip_both_signs: Whether to also bound the objective of positive advantages of continuous actions.
        action_mask: 0 where a discrete action is forbidden.

    Raises:
        AssertionError: ``dual_clip`` is neither ``None`` nor above 1.
    """
    if dual_clip is not None and not dual_clip > 1:
        raise AssertionError(f"dual_clip must be None or above 1.0, got {dual_clip}")
    outputs = [
        policy_parts(output, action, action_mask) for output in (new, old, new if pretrained is None else pretrained)
    ]
    terms: list[Surrogate] = []
    for (output, taken), (old_output, _), (reference, _) in zip(*outputs):
        policy = policy_of(output)
        logp, logp_old = policy.log_prob(taken), policy_of(old_output).log_prob(taken)
        ratio, entropy = (logp - logp_old).exp(), policy.entropy()
        if ratio.shape != adv.shape:
            ratio, entropy = ratio.mean(dim=1), entropy.mean(dim=1)
        objective = torch.min(ratio * adv, ratio.clamp(1 - clip_ratio, 1 + clip_ratio) * adv)
        if factor is not None:
            objective = objective * factor.reshape(adv.shape)
        if dual_clip is not None:
            bounded, both = torch.max(objective, dual_clip * adv), dual_clip_both_signs and isinstance(output, Mapping)
            objective = bounded if both else torch.where(adv < 0, bounded, objective)
        policy_loss, entropy_loss = -weighted(objective, weight).mean(), weighted(entropy, weight).mean()
        kl_div = torch.zeros_like(policy_loss)
        if pretrained is not None:
            kl_div = calculate_kl_div(logp - policy_of(reference).log_prob(taken), kl_type)
        with torch.no_grad():
            approx_kl, clipfrac = (logp_old - logp).mean(), ((ratio - 1).abs() > clip_ratio).float().mean()
        terms.append(Surrogate(policy_loss, entropy_loss, kl_div, approx_kl, clipfrac))
    if len(terms) == 1:
        return terms[0]
    columns = [torch.stack(column) for column in zip(*terms)]
    return Surrogate(*(column.sum() for column in columns[:3]), *(column.amax() for column in columns[3:]))


def calculate_kl_div(log_ratio: torch.Tensor, kl_type: str) -> torch.Tensor:
    """Return the mean estimate of a KL divergence from samples (Schulman 2020, "Approximating KL divergence").

    ``log_ratio`` = log p - log q for samples of p: ``k1`` is it, ``k2`` half its square, ``k3`` the unbiased positive
    form. Raises ``ValueError`` for another type.
    """
    if kl_type == "k1":
        return log_ratio.mean()
    if kl_type == "k2":
        return 0.5 * log_ratio.square().mean()
    if kl_type == "k3":
        return (torch.exp(-log_ratio) - 1 + log_ratio).mean()
    raise ValueError(f"kl_type={kl_type!r} is unknown.{did_you_mean(kl_type, ('k1', 'k2', 'k3'))}")


def clipped_value_loss(
    value_new: torch.Tensor,
    value_old: torch.Tensor,
    return_: torch.Tensor,
    weight: torch.Tensor | None,
    clip_ratio: float,
    use_value_clip: bool,
) -> torch.Tensor:
    """Return ``0.5 mean(w (R - v)^2)``; with clipping, the larger of it and that of ``v_old + clip(v - v_old)``."""
    error = (return_ - value_new).square()
    if use_value_clip:
        clipped = value_old + (value_new - value_old).clamp(-clip_ratio, clip_ratio)
        error = torch.max(error, (return_ - clipped).square())
    return 0.5 * weighted(error, weight).mean()
