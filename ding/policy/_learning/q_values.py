"""Values of discrete actions: what the losses of the value-based algorithms have in common.

A network gives ``logit`` ``[B, N]``, the values of N actions, or a list of such for an action of several parts, one
head for each. Values of chosen actions are ``[B]``, or ``[heads, B]``, so that rewards ``[B]`` meet their rows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch

from ding.policy.errors import PolicyDataError
from ding.rl_utils.policy_dist import weighted as weighted
from ding.torch_utils.math_helper import usable_mask

Values: TypeAlias = torch.Tensor | Sequence[torch.Tensor]
"""Values ``[B, N]``, or a list of such per head."""


class QLoss(NamedTuple):
    """What the loss of a value-based algorithm returns; only ``loss`` carries gradients that are used."""

    #: 0-d.
    loss: torch.Tensor
    #: Per sample, ``[B]``.
    priority: torch.Tensor
    #: Further values to log, each 0-d.
    numbers: dict[str, torch.Tensor]


def of_action(values: Values, action: Any) -> torch.Tensor:
    """Return ``values`` at ``action``: ``[B]`` at int64 ``[B]``; ``[heads, B]`` of several heads, at a list of
    actions or at int64 ``[B, heads]``.
    """
    if isinstance(values, torch.Tensor):
        return values.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    if isinstance(action, torch.Tensor):
        action = action.reshape(len(action), len(values)).unbind(-1)
    return torch.stack([of_action(head, taken) for head, taken in zip(values, action, strict=True)])


def heads_of(logit: Any) -> Any:
    """Return values ``[B, A, N]`` as a list of ``[B, N]``, one for each of A agents or parts; others as they are."""
    return list(logit.unbind(1)) if isinstance(logit, torch.Tensor) and logit.ndim > 2 else logit


def one_head(logit: Any) -> torch.Tensor:
    """Return values ``[B, N]`` as they are.

    Raises:
        PolicyDataError: they are of another form, whose rows would not meet the rewards of their samples.
    """
    if isinstance(logit, torch.Tensor) and logit.ndim == 2:
        return logit
    found = tuple(logit.shape) if isinstance(logit, torch.Tensor) else type(logit).__name__
    raise PolicyDataError(f"this loss takes values [B, actions] of a single action, found {found}")


def row_of_action(values: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Return the rows of ``values`` ``[B, N, M]``, such as quantiles, at ``action`` int64 ``[B]``: ``[B, M]``."""
    index = action.reshape(-1, 1, 1).expand(-1, 1, values.shape[-1])
    return values.gather(1, index).squeeze(1)


def greedy(values: Any, mask: Any = None) -> Any:
    """Return the best allowed action of each row, int64 ``[B]``; a list of such for several heads.

    Args:
        values: ``[B, N]``, or a list of such per head.
        mask: ``[B, N]``, 0 where an action is forbidden, or a list of such per head; None allows all.
    """
    if not isinstance(values, torch.Tensor):
        mask = heads_of(mask)
        masks = mask if isinstance(mask, list) else [mask] * len(values)
        return [greedy(head, allowed) for head, allowed in zip(values, masks, strict=True)]
    return (values if mask is None else values.masked_fill(usable_mask(mask) <= 0, -torch.inf)).argmax(-1)


def mean_of(values: Values) -> torch.Tensor:
    """Return the mean of all values, 0-d and without gradients, to log."""
    flat = values if isinstance(values, torch.Tensor) else torch.cat(list(values), dim=-1)
    return flat.detach().mean()
