"""Actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

Notation: T time, B batch, N actions. Log-probabilities are called ``logit`` here, as in the public signatures.
"""

from collections.abc import Sequence

import torch

_EPS = 1e-8


def acer_policy_error(
    q_values: torch.Tensor,
    q_retraces: torch.Tensor,
    v_pred: torch.Tensor,
    target_logit: torch.Tensor,
    actions: torch.Tensor,
    ratio: torch.Tensor,
    c_clip_ratio: float = 10.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the truncated policy gradient and its bias correction, to be maximised, each ``[T, B, 1]``.

    q_values ``[T, B, N]``, q_retraces and v_pred ``[T, B, 1]``, target_logit log-probabilities ``[T, B, N]``, actions
    int64 ``[T, B]``, ratio importance ratios of all actions ``[T, B, N]``. Gradients flow into target_logit only.
    """
    index = actions.unsqueeze(-1)
    with torch.no_grad():
        adv_retrace = q_retraces - v_pred
        adv_native = q_values - v_pred
        truncated = ratio.gather(-1, index).clamp(max=c_clip_ratio)
        excess = (1.0 - c_clip_ratio / (ratio + _EPS)).clamp(min=0.0) * target_logit.exp()
    actor = truncated * adv_retrace * target_logit.gather(-1, index)
    bias_correction = (excess * adv_native * target_logit).sum(-1, keepdim=True)
    return actor, bias_correction


def acer_value_error(q_values: torch.Tensor, q_retraces: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """``0.5 (Q_retrace - q[a])^2`` ``[T, B, 1]`` for q_values ``[T, B, N]`` and actions ``[T, B]``."""
    return 0.5 * (q_retraces - q_values.gather(-1, actions.unsqueeze(-1))).square()


def acer_trust_region_update(
    actor_gradients: Sequence[torch.Tensor],
    target_logit: torch.Tensor,
    avg_logit: torch.Tensor,
    trust_region_value: float,
) -> list[torch.Tensor]:
    """Project gradients ``[..., N]`` so that a step does not leave the trust region around the average policy.

    ``avg_logit`` are log-probabilities ``[..., N]``. ``target_logit`` is accepted for compatibility; the gradient of
    the divergence does not depend on it.
    """
    with torch.no_grad():
        direction = avg_logit.exp()
        norm = direction.square().sum(-1, keepdim=True)
        updated = []
        for gradient in actor_gradients:
            excess = (gradient * direction).sum(-1, keepdim=True) - trust_region_value
            updated.append(gradient - (excess / norm).clamp(min=0.0) * direction)
    return updated
