"""The clipped surrogate objective and the clipped value loss that the PPO family shares."""

import torch

from ding.rl_utils._policy_dist import weighted
from ding.utils.default_helper import did_you_mean


def check_dual_clip(dual_clip: float | None) -> None:
    """Raise ``AssertionError`` unless ``dual_clip`` is ``None`` or above 1."""
    if dual_clip is not None and not dual_clip > 1.0:
        raise AssertionError(f"dual_clip must be None or above 1.0, got {dual_clip}")


def clipped_surrogate(
    ratio: torch.Tensor,
    adv: torch.Tensor,
    clip_ratio: float,
    dual_clip: float | None,
    dual_clip_both_signs: bool = False,
    factor: torch.Tensor | None = None,
) -> torch.Tensor:
    """``min(ratio A, clip(ratio) A)``, bounded below by ``dual_clip A`` where A is negative.

    ``factor``, of the shape of ``adv``, scales the minimum but not the bound.
    """
    objective = torch.min(ratio * adv, ratio.clamp(1 - clip_ratio, 1 + clip_ratio) * adv)
    if factor is not None:
        objective = objective * factor
    if dual_clip is None:
        return objective
    bounded = torch.max(objective, dual_clip * adv)
    return bounded if dual_clip_both_signs else torch.where(adv < 0, bounded, objective)


def policy_ratio(logp_new: torch.Tensor, logp_old: torch.Tensor, adv: torch.Tensor) -> torch.Tensor:
    """Importance ratio; averaged over dim 1 when the advantages lack that dimension."""
    ratio = torch.exp(logp_new - logp_old)
    return ratio if ratio.shape == adv.shape else ratio.mean(dim=1)


def change_stats(
    ratio: torch.Tensor, logp_new: torch.Tensor, logp_old: torch.Tensor, clip_ratio: float
) -> tuple[float, float]:
    """``(approx_kl, clipfrac)``: mean of ``log pi_old - log pi_new`` (signed), share of clipped ratios."""
    with torch.no_grad():
        approx_kl = (logp_old - logp_new).mean().item()
        clipfrac = ((ratio - 1).abs() > clip_ratio).float().mean().item()
    return approx_kl, clipfrac


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
