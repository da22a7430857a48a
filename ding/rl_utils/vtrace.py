"""V-trace (Espeholt et al. 2018, arXiv:1802.01561).

There is no done argument: mask rewards, values and discounts of finished episodes before.
"""

from collections import namedtuple

import torch

from ding.rl_utils._types import Data
from ding.rl_utils.gae import backward_sums
from ding.rl_utils.policy_dist import policy_of, weighted

vtrace_data = namedtuple("vtrace_data", "target_output behaviour_output action value reward weight")
vtrace_loss = namedtuple("vtrace_loss", "policy_loss value_loss entropy_loss")


def vtrace_nstep_return(
    clipped_rhos: torch.Tensor,
    clipped_cs: torch.Tensor,
    reward: torch.Tensor,
    bootstrap_values: torch.Tensor,
    gamma: float = 0.99,
    lambda_: float = 0.95,
) -> torch.Tensor:
    """V-trace targets ``[T, B]`` of rewards ``[T, B]`` and values ``[T + 1, B]`` under clipped weights ``[T, B]``."""
    delta = clipped_rhos * (reward + gamma * bootstrap_values[1:] - bootstrap_values[:-1])
    factor = gamma * lambda_ * clipped_cs
    return bootstrap_values[:-1] + backward_sums(delta, factor)


def vtrace_advantage(
    clipped_pg_rhos: torch.Tensor,
    reward: torch.Tensor,
    return_: torch.Tensor,
    bootstrap_values: torch.Tensor,
    gamma: float,
) -> torch.Tensor:
    """Weighted advantage ``[T, B]``; ``return_`` ``[T, B]`` are the targets of the *next* states."""
    return clipped_pg_rhos * (reward + gamma * return_ - bootstrap_values)


def vtrace_error_discrete_action(
    data: Data,
    gamma: float = 0.99,
    lambda_: float = 0.95,
    rho_clip_ratio: float = 1.0,
    c_clip_ratio: float = 1.0,
    rho_pg_clip_ratio: float = 1.0,
) -> vtrace_loss:
    """Policy, value and entropy losses, each 0-d.

    ``data``: ``vtrace_data``; outputs logits ``[T, B, N]`` and action int64 ``[T, B]``, or outputs mappings with mu and
    sigma ``[T, B, D]`` and action ``[T, B, D]``; value ``[T + 1, B]``, reward and weight ``[T, B]``.
    """
    target_output, behaviour_output, action, value, reward, weight = data
    policy = policy_of(target_output)
    with torch.no_grad():
        weights = torch.exp(policy.log_prob(action) - policy_of(behaviour_output).log_prob(action))
        rhos, cs = weights.clamp(max=rho_clip_ratio), weights.clamp(max=c_clip_ratio)
        target = vtrace_nstep_return(rhos, cs, reward, value, gamma, lambda_)
        next_target = torch.cat([target[1:], value[-1:]])
        adv = vtrace_advantage(weights.clamp(max=rho_pg_clip_ratio), reward, next_target, value[:-1], gamma)
    return vtrace_loss(
        -weighted(policy.log_prob(action) * adv, weight).mean(),
        weighted((value[:-1] - target).square(), weight).mean(),
        weighted(policy.entropy(), weight).mean(),
    )


#: The outputs determine the kind of policy.
vtrace_error_continuous_action = vtrace_error_discrete_action
