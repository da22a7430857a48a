"""A policy's output and action as parts of one kind each, so that one loss serves all action spaces.

A part is ``(output, action)``: logits ``[B, N]`` with int64 ``[B]``, or ``{'mu', 'sigma'}`` ``[B, D]`` with float ``[B,
D]``. A hybrid action has one part of each kind, one of several discrete choices a part for each, another one part.
"""

from collections.abc import Mapping
from typing import Any

import torch

from ding.torch_utils.math_helper import usable_mask

Part = tuple[Any, torch.Tensor]


def policy_parts(logit: Any, action: Any, action_mask: torch.Tensor | None = None) -> list[Part]:
    """Split ``logit`` of a network (see :class:`ding.model.VAC`) and the actions that were taken.

    Args:
        action_mask: ``[B, N]``, 0 where a discrete action is forbidden: its logit becomes minus infinity.
    """
    if isinstance(action, Mapping):
        kind, args = action["action_type"], action["action_args"]
        kind = kind.squeeze(1) if kind.ndim == 2 else kind
        return [(_masked(logit["action_type"], action_mask), kind), (logit["action_args"], args)]
    if isinstance(logit, (list, tuple)):
        heads = action if isinstance(action, (list, tuple)) else action.unbind(-1)
        masks = action_mask if isinstance(action_mask, (list, tuple)) else [action_mask] * len(logit)
        return [(_masked(part, mask), taken.flatten()) for part, taken, mask in zip(logit, heads, masks, strict=True)]
    return [(_masked(logit, action_mask), action)]


def action_mask_of(obs: Any) -> torch.Tensor | None:
    """The ``action_mask`` of dict observations, if they have one."""
    return obs.get("action_mask") if isinstance(obs, Mapping) else None


def _masked(logit: Any, mask: torch.Tensor | None) -> Any:
    if mask is None or not isinstance(logit, torch.Tensor):
        return logit
    return logit.masked_fill(usable_mask(mask) == 0, float("-inf"))
