"""Importance weights between two policies."""

from difflib import get_close_matches
from typing import Any

import torch

from ding.rl_utils._policy_dist import Categorical, DiagonalNormal

_SPACES = ("discrete", "continuous")


def compute_importance_weights(
    target_output: Any,
    behaviour_output: Any,
    action: torch.Tensor,
    action_space_type: str = "discrete",
    requires_grad: bool = False,
) -> torch.Tensor:
    """``pi_target(a) / pi_behaviour(a)`` ``[T, B]``.

    Args:
        target_output: logits ``[T, B, N]``, or a mapping with mu and sigma ``[T, B, D]`` for ``'continuous'``.
        behaviour_output: the same of the policy that acted.
        action: int64 ``[T, B]``, or float ``[T, B, D]``.
        requires_grad: keep the graph; otherwise the weights are constants.

    Raises ``AssertionError`` for another ``action_space_type``.
    """
    if action_space_type not in _SPACES:
        near = get_close_matches(str(action_space_type), _SPACES, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        expected = " or ".join(_SPACES)
        raise AssertionError(f"action_space_type={action_space_type!r} is unknown, expected {expected}{hint}")
    policy = Categorical if action_space_type == "discrete" else DiagonalNormal
    with torch.set_grad_enabled(requires_grad and torch.is_grad_enabled()):
        return torch.exp(policy(target_output).log_prob(action) - policy(behaviour_output).log_prob(action))
