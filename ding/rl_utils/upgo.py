"""Upgoing policy update (Vinyals et al. 2019, "Grandmaster level in StarCraft II")."""

import torch

from ding.rl_utils._td_values import multistep_forward_view
from ding.rl_utils.policy_dist import Categorical
from ding.utils.errors import InvalidArgumentError


def upgo_returns(rewards: torch.Tensor, bootstrap_values: torch.Tensor) -> torch.Tensor:
    """Return upgoing returns ``[T, B]``: those of the trajectory while it exceeds the values ``[T + 1, B]``, else the
    values."""
    better = rewards + bootstrap_values[1:] >= bootstrap_values[:-1]
    follow = torch.cat([better[1:], torch.ones_like(better[-1:])]).to(rewards.dtype)
    return multistep_forward_view(bootstrap_values[1:], rewards, 1.0, follow)


def tb_cross_entropy(logit: torch.Tensor, label: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Return the log-probability ``[T, B]`` of ``label`` ``[T, B]`` under ``logit`` ``[T, B, N]``.

    Labels ``[T, B, M]`` under ``[T, B, M, N]`` are summed over M, those with ``mask`` ``[T, B, M]`` 0 left out. Raises
    ``InvalidArgumentError`` for other shapes and for a mask with 2-D labels.
    """
    if label.dim() not in (2, 3) or logit.shape[:-1] != label.shape:
        raise InvalidArgumentError(
            f"expected labels [T, B] or [T, B, M], got {tuple(label.shape)} for {tuple(logit.shape)}"
        )
    log_p = Categorical(logit).log_prob(label)
    if label.dim() == 2:
        if mask is not None:
            raise InvalidArgumentError("a mask needs labels [T, B, M]")
        return log_p
    return (log_p if mask is None else log_p * mask).sum(-1)


def upgo_loss(
    target_output: torch.Tensor,
    rhos: torch.Tensor,
    action: torch.Tensor,
    rewards: torch.Tensor,
    bootstrap_values: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """``-mean(rho (G - V) log pi(a))``, a 0-d loss.

    target_output logits ``[T, B, N]`` (or ``[T, B, M, N]``), rhos clipped importance weights ``[T, B]``, action ``[T,
    B]`` (or ``[T, B, M]`` with mask ``[T, B, M]``), rewards ``[T, B]``, bootstrap_values ``[T + 1, B]``.
    """
    with torch.no_grad():
        adv = rhos * (upgo_returns(rewards, bootstrap_values) - bootstrap_values[:-1])
    return -(adv * tb_cross_entropy(target_output, action, mask)).mean()
