"""Importance weights between two policies."""

import torch

from ding.rl_utils._types import PolicyOutput
from ding.rl_utils.policy_dist import policy_of
from ding.utils.names import check_choice

_SPACES = ("discrete", "continuous")


def compute_importance_weights(
    target_output: PolicyOutput,
    behaviour_output: PolicyOutput,
    action: torch.Tensor,
    action_space_type: str = "discrete",
    requires_grad: bool = False,
) -> torch.Tensor:
    """``pi_target(a) / pi_behaviour(a)`` ``[T, B]``.

    Args:
        target_output: logits ``[T, B, N]``, or a mapping with mu and sigma ``[T, B, D]`` for ``'continuous'``.
        behaviour_output: Output of the policy that acted, in the same form.
        action: int64 ``[T, B]``, or float ``[T, B, D]``.
        requires_grad: Whether to keep the graph; otherwise the weights are constants.

    Raises ``AssertionError`` for another ``action_space_type``.
    """
    check_choice("action_space_type", action_space_type, _SPACES, AssertionError)
    with torch.set_grad_enabled(requires_grad and torch.is_grad_enabled()):
        return torch.exp(policy_of(target_output).log_prob(action) - policy_of(behaviour_output).log_prob(action))
