"""Natural gradient steps within a bound of the KL divergence, as in TRPO."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ding.rl_utils.policy_dist import policy_of, policy_parts


def conjugate_gradient(product: Callable[[torch.Tensor], torch.Tensor], b: torch.Tensor, steps: int) -> torch.Tensor:
    """Return ``x`` with ``product(x) = b`` for a symmetric positive definite ``product``, ``[P]``, after at most
    ``steps`` steps.
    """
    x, residual = torch.zeros_like(b), b.clone()
    direction, norm = residual, residual @ residual
    for _ in range(steps):
        if norm <= 1e-10 * (b @ b):
            break
        image = product(direction)
        size = norm / (direction @ image)
        x, residual = x + size * direction, residual - size * image
        before, norm = norm, residual @ residual
        direction = residual + norm / before * direction
    return x


def compared_policies(old: Any, new: Any, action: Any, action_mask: Any = None) -> tuple[torch.Tensor, ...]:
    """Return ``log(new(a|s) / old(a|s))``, ``KL(old || new)`` and the entropy of the new policy for each sample,
    summed over the parts of an action: ``[B]`` each.

    Args:
        old, new: outputs of policies, see :func:`~ding.rl_utils.policy_dist.policy_parts`.
        action: Actions taken.
        action_mask: 0 where a discrete action is forbidden.
    """
    terms = []
    for (before, taken), (now, _) in zip(
        policy_parts(old, action, action_mask), policy_parts(new, action, action_mask)
    ):
        past, policy = policy_of(before), policy_of(now)
        log_ratio = policy.log_prob(taken) - past.log_prob(taken)
        kl: torch.Tensor = past.kl_to(policy)  # type: ignore[arg-type]
        terms.append(torch.stack([log_ratio, kl, policy.entropy()]))
    return torch.stack(terms).sum(0).unbind(0)


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return all elements as one vector ``[P]``."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def assign(parameters: Sequence[torch.Tensor], values: torch.Tensor) -> None:
    """Write a vector ``[P]`` into parameters, in place."""
    for parameter, part in zip(parameters, values.split([one.numel() for one in parameters])):
        parameter.copy_(part.view_as(parameter))
