"""The clipped surrogate objective and the clipped value loss that the PPO family shares."""

from typing import NamedTuple

import torch

from ding.rl_utils._types import Data
from ding.rl_utils.policy_dist import policy_of, stored_policy_of, weighted
from ding.utils.names import did_you_mean


class Surrogate(NamedTuple):
    """What ``surrogate_loss`` returns: two 0-d losses, the log-probability of each action, and two 0-d statistics.

    Nothing is read as a number, so that it waits for no device and can be compiled.
    """

    policy_loss: torch.Tensor
    entropy_loss: torch.Tensor
    logp_new: torch.Tensor
    approx_kl: torch.Tensor
    clipfrac: torch.Tensor


def surrogate_loss(
    data: Data,
    clip_ratio: float,
    dual_clip: float | None,
    dual_clip_both_signs: bool = False,
    factor: torch.Tensor | None = None,
) -> Surrogate:
    """``min(ratio A, clip(ratio) A)``, bounded below by ``dual_clip A`` where A is negative, and the entropy.

    With more actions than advantages, ratio and entropy are averaged over dim 1. ``approx_kl`` is the mean of
    ``log pi_old - log pi_new`` (signed), ``clipfrac`` the share of clipped ratios.

    Args:
        data: outputs of the new and the old policy, action, adv, weight.
        factor: of the size of ``adv``; scales the minimum but not the bound.

    Raises:
        AssertionError: ``dual_clip`` is neither ``None`` nor above 1.
    """
    if dual_clip is not None and not dual_clip > 1.0:
        raise AssertionError(f"dual_clip must be None or above 1.0, got {dual_clip}")
    new_output, old_output, action, adv, weight = data
    new, old = policy_of(new_output), stored_policy_of(old_output)
    logp_new, logp_old = new.log_prob(action), old.log_prob(action)
    ratio, entropy = torch.exp(logp_new - logp_old), new.entropy()
    if ratio.shape != adv.shape:
        ratio, entropy = ratio.mean(dim=1), entropy.mean(dim=1)
    objective = torch.min(ratio * adv, ratio.clamp(1 - clip_ratio, 1 + clip_ratio) * adv)
    if factor is not None:
        objective = objective * factor.reshape(adv.shape)
    if dual_clip is not None:
        bounded = torch.max(objective, dual_clip * adv)
        objective = bounded if dual_clip_both_signs else torch.where(adv < 0, bounded, objective)
    with torch.no_grad():
        approx_kl = (logp_old - logp_new).mean()
        clipfrac = ((ratio - 1).abs() > clip_ratio).float().mean()
    losses = -weighted(objective, weight).mean(), weighted(entropy, weight).mean()
    return Surrogate(*losses, logp_new, approx_kl, clipfrac)


def kl_estimate(log_ratio: torch.Tensor, kl_type: str) -> torch.Tensor:
    """Mean estimate of a KL divergence from samples (Schulman 2020, "Approximating KL divergence").

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
    """``0.5 mean(w (R - v)^2)``; with clipping the larger of it and that of ``v_old + clip(v - v_old)``."""
    error = (return_ - value_new).square()
    if use_value_clip:
        clipped = value_old + (value_new - value_old).clamp(-clip_ratio, clip_ratio)
        error = torch.max(error, (return_ - clipped).square())
    return 0.5 * weighted(error, weight).mean()
