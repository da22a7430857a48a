"""Retrace (Munos et al. 2016, arXiv:1606.02647)."""

import torch


def compute_q_retraces(
    q_values: torch.Tensor,
    v_pred: torch.Tensor,
    rewards: torch.Tensor,
    actions: torch.Tensor,
    weights: torch.Tensor,
    ratio: torch.Tensor,
    gamma: float = 0.9,
) -> torch.Tensor:
    """Off-policy corrected action values ``[T + 1, B, 1]``; the last row is the bootstrap value.

    Args:
        q_values: ``[T + 1, B, N]``.
        v_pred: ``[T + 1, B, 1]``.
        rewards: ``[T, B]``.
        actions: int64 ``[T, B]``.
        weights: ``[T, B]``, 0 where the episode ends after the step and 1 elsewhere.
        ratio: importance ratios of all actions, ``[T, B, N]``.
    """
    steps = rewards.shape[0]
    index = actions.unsqueeze(-1)
    q_taken = q_values[:-1].gather(-1, index)
    truncated = ratio.gather(-1, index).clamp(max=1.0)
    discount = gamma * weights.unsqueeze(-1)
    carried = v_pred[-1]
    result = [carried]
    for step in range(steps - 1, -1, -1):
        q_retrace = rewards[step].unsqueeze(-1) + discount[step] * carried
        result.append(q_retrace)
        carried = truncated[step] * (q_retrace - q_taken[step]) + v_pred[step]
    return torch.stack(result[::-1])
