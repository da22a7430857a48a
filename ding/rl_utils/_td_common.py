"""What the TD errors share: picking values, aligning ranks, n-step returns, weighting.

Everything here keeps the number of torch calls low: at the usual batch sizes a learner iteration is bound by them.
"""

from collections import namedtuple
from functools import lru_cache

import torch
from torch import nn

from ding.rl_utils._types import Data, Gamma, ValueGamma

MSE = nn.MSELoss(reduction="none")

nstep_return_data = namedtuple("nstep_return_data", "reward next_value done")


def elementwise(criterion: nn.Module, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """``criterion(prediction, target)``; the default criterion without the cost of a module call."""
    if criterion is MSE:
        return (prediction - target).square()
    return criterion(prediction, target)


def select(values: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """``values`` ``[*S, N]`` at ``action`` ``[*S]`` or ``[*S, 1]``, giving ``[*S]``."""
    if action.dim() < values.dim():
        action = action.unsqueeze(-1)
    return values.gather(-1, action).squeeze(-1)


def align(value: torch.Tensor, rank: int) -> torch.Tensor:
    """Append dimensions of size 1 until ``value`` has ``rank`` dimensions, so that rows meet rows."""
    while value.dim() < rank:
        value = value.unsqueeze(-1)
    return value


def weighted_mean(per_sample: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """Mean of ``per_sample`` times ``weight`` (``None``: ones), rows of both aligned."""
    if weight is None:
        return per_sample.mean()
    return (per_sample * align(weight, per_sample.dim())).mean()


def continues(done: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``1 - done`` as a float, for boolean and float ``done``."""
    return 1 - (done if done.is_floating_point() else done.to(dtype))


@lru_cache(maxsize=64)
def _powers(gamma: float, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.tensor([gamma**i for i in range(count)], dtype=dtype, device=device)


def _summed_reward(reward: torch.Tensor, gamma: Gamma, nstep: int) -> tuple[torch.Tensor, float | torch.Tensor]:
    """Discounted sum of the rewards ``[n, B, ...]`` and the discount of what follows them."""
    # AssertionError is the public contract here; raised explicitly so that `python -O` keeps it.
    if reward.shape[0] != nstep:
        raise AssertionError(f"reward must have nstep={nstep} rows (time first), got shape {tuple(reward.shape)}")
    if isinstance(gamma, float):
        if not reward.is_floating_point():
            reward = reward.to(torch.get_default_dtype())  # whole numbers would round the discounts to 0
        powers = _powers(gamma, nstep, reward.dtype, reward.device)
        return (powers @ reward.reshape(nstep, -1)).view(reward.shape[1:]), gamma**nstep
    if isinstance(gamma, (list, tuple)):
        if len(gamma) != nstep:
            raise ValueError(f"gamma must hold nstep={nstep} tensors, got {len(gamma)}")
        rank = reward.dim() - 1
        total, factor = reward[0], align(gamma[0], rank)
        for step in range(1, nstep):
            total = total + factor * reward[step]
            factor = factor * align(gamma[step], rank)
        return total, factor
    raise TypeError(f"gamma must be a float or a list of {nstep} tensors, got {type(gamma).__name__}: {gamma!r}")


def bootstrap(
    reward: torch.Tensor,
    next_value: torch.Tensor,
    done: torch.Tensor | None,
    discount: float | torch.Tensor,
) -> torch.Tensor:
    """``reward + discount * next_value * (1 - done)`` with the rows of all of them aligned to ``next_value``."""
    rank = next_value.dim()
    if done is not None:
        next_value = next_value * align(continues(done, next_value.dtype), rank)
    if isinstance(discount, torch.Tensor):
        return align(reward, rank) + align(discount, rank) * next_value
    return torch.add(align(reward, rank), next_value, alpha=discount)


def nstep_return(
    data: Data,
    gamma: Gamma,
    nstep: int,
    value_gamma: ValueGamma = None,
) -> torch.Tensor:
    """n-step return (Sutton and Barto 2018, 7.1): ``sum_i gamma^i r_i + G * next_value * (1 - done)``.

    Args:
        data: ``nstep_return_data(reward, next_value, done)``: float ``[n, B, ...]``, float ``[B, ...]``, ``[B]``.
            Trailing dimensions that ``reward`` or ``done`` lack are added.
        gamma: a float, or a list of n tensors ``[B]`` whose products are the discounts.
        value_gamma: ``G``, a number or ``[B]``; default ``gamma^n``.

    Returns the return, of the shape of ``next_value``. Raises ``AssertionError`` when ``reward`` has not n rows and
    ``TypeError`` for another type of ``gamma``.
    """
    reward, next_value, done = data
    return td_target(reward, next_value, done, gamma, nstep, False, value_gamma)


def td_target(
    reward: torch.Tensor,
    next_value: torch.Tensor,
    done: torch.Tensor,
    gamma: Gamma,
    nstep: int,
    cum_reward: bool,
    value_gamma: ValueGamma,
) -> torch.Tensor:
    """n-step target, also for rewards ``[B]`` that are summed already (``cum_reward``)."""
    if cum_reward:
        if value_gamma is None:
            if not isinstance(gamma, float):
                raise TypeError(f"gamma must be a float with cum_reward, got {type(gamma).__name__}")
            value_gamma = gamma**nstep
        return bootstrap(reward, next_value, done, value_gamma)
    if nstep == 1 and len(reward) == 1 and isinstance(gamma, float):
        return bootstrap(reward[0], next_value, done, gamma if value_gamma is None else value_gamma)
    total, discount = _summed_reward(reward, gamma, nstep)
    return bootstrap(total, next_value, done, discount if value_gamma is None else value_gamma)
