"""The clipped surrogate objective over tokens of sequences, shared by GRPO and RLOO."""

from typing import NamedTuple

import torch

from ding.rl_utils.log_prob_utils import LogProbFunction


class TokenSurrogate(NamedTuple):
    """Result of :func:`token_surrogate_loss`: a 0-d loss and two 0-d statistics over the tokens with a weight."""

    loss: torch.Tensor
    approx_kl: torch.Tensor
    clipfrac: torch.Tensor


def token_surrogate_loss(
    new: torch.Tensor,
    old: torch.Tensor,
    action: torch.Tensor,
    adv: torch.Tensor,
    weight: torch.Tensor | None,
    log_prob_fn: LogProbFunction,
    clip_ratio: float,
    *,
    reference: torch.Tensor | None = None,
    beta: float = 0.0,
    all_tokens: bool = False,
) -> TokenSurrogate:
    """``-min(ratio A, clip(ratio) A) + beta KL(new, reference)`` of each token: the mean over sequences of their means.

    The KL divergence is the estimate k3 of :func:`~ding.rl_utils.surrogate.calculate_kl_div`. Only ``new`` gets a
    gradient.

    Args:
        new, old, reference: logits ``[B, S, V]`` of the policies: the one that learns, the one that generated the
            tokens, and one to stay near to (None for none).
        action: the tokens, int64 ``[B, S]``.
        adv: advantage of each sequence, ``[B]``.
        weight: ``[B, S]``, 0 for tokens that are not learned; a sequence without any adds 0. None counts as ones.
        all_tokens: Whether to count tokens of weight 0 in the statistics.

    Raises:
        ValueError: ``adv`` or ``weight`` has a wrong shape, which would broadcast silently.
    """
    for name, value, shape in (("adv", adv, action.shape[:1]), ("weight", weight, action.shape)):
        if value is not None and value.shape != shape:
            raise ValueError(
                f"{name} has the shape {tuple(value.shape)}, expected {tuple(shape)} as the tokens have it"
            )
    weight = torch.ones_like(adv).unsqueeze(1).expand(action.shape) if weight is None else weight
    unused = torch.zeros_like(action, dtype=torch.bool) if all_tokens else weight == 0

    # Logits of padding must affect neither loss nor gradient, and 0 times infinity is NaN.
    logp = log_prob_fn(new, action).masked_fill(unused, 0)
    with torch.no_grad():
        logp_old = log_prob_fn(old, action).masked_fill(unused, 0)
    ratio, adv = (logp - logp_old).exp(), adv.unsqueeze(1)
    loss = -torch.min(ratio * adv, ratio.clamp(1 - clip_ratio, 1 + clip_ratio) * adv)
    if reference is not None:
        with torch.no_grad():
            logp_reference = log_prob_fn(reference, action).masked_fill(unused, 0)
        log_ratio = logp_reference - logp
        loss = loss + beta * (log_ratio.exp() - log_ratio - 1)

    with torch.no_grad():
        counted = torch.ones_like(weight) if all_tokens else weight
        approx_kl = _mean(logp_old - logp, counted, None)
        clipfrac = _mean(((ratio - 1).abs() > clip_ratio).to(ratio.dtype), counted, None)
    return TokenSurrogate(_mean(loss, weight, 1).mean(), approx_kl, clipfrac)


def _mean(value: torch.Tensor, weight: torch.Tensor, dim: int | None) -> torch.Tensor:
    """Return the weighted mean over ``dim`` (None: all); 0 if all weights are 0."""
    total = weight.sum(dim)
    return (value * weight).sum(dim) / torch.where(total == 0, 1, total)
