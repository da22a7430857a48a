"""TD errors of state values and lambda returns."""

from collections import namedtuple

import numpy as np
import torch
from torch import nn

from ding.rl_utils._td_common import MSE, bootstrap, continues, elementwise, td_target, weighted_mean
from ding.rl_utils._types import Data, Gamma, LossAndPerSample
from ding.rl_utils.gae import backward_sums

v_1step_td_data = namedtuple("v_1step_td_data", "v next_v reward done weight")
v_nstep_td_data = namedtuple("v_nstep_td_data", "v next_n_v reward done weight value_gamma")
td_lambda_data = namedtuple("td_lambda_data", "value reward weight")

PerStep = float | torch.Tensor


def v_1step_td_error(data: Data, gamma: float, criterion: nn.Module = MSE) -> LossAndPerSample:
    """One-step TD error of state values: ``(loss, per-sample)``.

    ``data``: ``v_1step_td_data``; v and next_v ``[B]`` or ``[B, A]``, reward, done (or ``None``) and weight ``[B]``.
    """
    v, next_v, reward, done, weight = data
    with torch.no_grad():
        target = bootstrap(reward, next_v, done, gamma)
    per_sample = elementwise(criterion, v, target)
    return weighted_mean(per_sample, weight), per_sample


def v_nstep_td_error(data: Data, gamma: Gamma, nstep: int = 1, criterion: nn.Module = MSE) -> LossAndPerSample:
    """n-step TD error of state values: ``(loss, per-sample)``.

    ``data``: ``v_nstep_td_data``; v and next_n_v ``[B]``, reward ``[n, B]``, done, weight and value_gamma ``[B]``.
    """
    v, next_n_v, reward, done, weight, value_gamma = data
    with torch.no_grad():
        target = td_target(reward, next_n_v, done, gamma, nstep, False, value_gamma)
    per_sample = elementwise(criterion, v, target)
    return weighted_mean(per_sample, weight), per_sample


def multistep_forward_view(
    bootstrap_values: torch.Tensor,
    rewards: torch.Tensor,
    gammas: PerStep,
    lambda_: PerStep,
    done: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lambda returns (Sutton and Barto 2018, 12.1) of a segment of T steps.

    ``bootstrap_values`` ``[T, B]`` are the values of the *next* states, rewards ``[T, B]``, ``gammas`` and ``lambda_``
    numbers or ``[T, B]``, done ``[T, B]`` or ``None``. Returns ``[T, B]``.
    """
    carried = gammas * lambda_ * torch.ones_like(rewards)
    fresh = gammas * (1 - lambda_) * bootstrap_values
    last = (gammas[-1] if isinstance(gammas, torch.Tensor) else gammas) * bootstrap_values[-1]
    if done is not None:
        mask = continues(done, rewards.dtype)
        carried, fresh, last = carried * mask, fresh * mask, last * mask[-1]
    return backward_sums(rewards + torch.cat([fresh[:-1], last.unsqueeze(0)]), carried)


def generalized_lambda_returns(
    bootstrap_values: torch.Tensor,
    rewards: torch.Tensor,
    gammas: PerStep,
    lambda_: PerStep,
    done: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lambda returns ``[T, B]``: :func:`multistep_forward_view` for values ``[T + 1, B]`` of all states.

    Raises ``ValueError`` unless there is one value more than rewards.
    """
    if bootstrap_values.shape[0] != rewards.shape[0] + 1:
        raise ValueError(
            f"expected one value more than rewards, got {bootstrap_values.shape[0]} and {rewards.shape[0]} steps"
        )
    return multistep_forward_view(bootstrap_values[1:], rewards, gammas, lambda_, done)


def td_lambda_error(data: Data, gamma: float = 0.9, lambda_: float = 0.8) -> torch.Tensor:
    """``0.5 mean(weight (value - lambda return)^2)``, a 0-d loss.

    ``data``: ``td_lambda_data``; value ``[T + 1, B]``, reward ``[T, B]``, weight ``[T, B]`` or ``None``.
    """
    value, reward, weight = data
    with torch.no_grad():
        target = generalized_lambda_returns(value, reward, gamma, lambda_)
    return 0.5 * weighted_mean((value[:-1] - target).square(), weight)


def discount_cumsum(x: np.ndarray, gamma: float = 1.0) -> np.ndarray:
    """Suffix sums of ``x`` ``[T]``: the undiscounted return from each step. Only ``gamma=1`` is defined.

    Raises ``AssertionError`` for another gamma.
    """
    if abs(gamma - 1.0) > 1e-5:
        raise AssertionError(f"discount_cumsum is defined for gamma=1 only, got {gamma}")
    return np.cumsum(np.asarray(x)[::-1], axis=0)[::-1]
