"""TD errors for learning from demonstrations (DQfD; Hester et al. 2018, arXiv:1704.03732)."""

from collections import namedtuple
from collections.abc import Callable

import torch
from torch import nn

from ding.rl_utils._td_values import MSE, bootstrap, nstep_reward, select, td_loss, weighted_mean
from ding.rl_utils._types import Data, Gamma, ValueGamma
from ding.rl_utils.value_rescale import value_inv_transform, value_transform

Transform = Callable[[torch.Tensor], torch.Tensor]
DqfdResult = tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]

dqfd_nstep_td_data = namedtuple(
    "dqfd_nstep_td_data",
    "q next_n_q action next_n_action reward done done_one_step weight new_n_q_one_step next_n_action_one_step"
    " is_expert",
)


def _identity(x: torch.Tensor) -> torch.Tensor:
    return x


def dqfd_nstep_td_error(
    data: Data,
    gamma: Gamma,
    lambda_n_step_td: float,
    lambda_supervised_loss: float,
    margin_function: float,
    lambda_one_step_td: float = 1.0,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: ValueGamma = None,
    criterion: nn.Module = MSE,
) -> DqfdResult:
    """Return the weighted sum of the n-step loss, the one-step loss and the large-margin loss of the expert's action.

    ``data``: ``dqfd_nstep_td_data``; q values ``[B, N]``, reward ``[n, B]``, the rest ``[B]``; the one-step part uses
    the first reward row. ``margin_function`` is the margin added to actions that the expert did not take, typically
    0.8.

    Returns ``(loss, sum of the absolute scaled parts [B], means of the three unscaled parts)``.
    """
    return dqfd_nstep_td_error_with_rescale(
        data,
        gamma,
        lambda_n_step_td,
        lambda_supervised_loss,
        lambda_one_step_td,
        margin_function,
        nstep,
        cum_reward,
        value_gamma,
        criterion,
        _identity,
        _identity,
    )


def dqfd_nstep_td_error_with_rescale(
    data: Data,
    gamma: Gamma,
    lambda_n_step_td: float,
    lambda_supervised_loss: float,
    lambda_one_step_td: float,
    margin_function: float,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: ValueGamma = None,
    criterion: nn.Module = MSE,
    trans_fn: Transform = value_transform,
    inv_trans_fn: Transform = value_inv_transform,
) -> DqfdResult:
    """:func:`dqfd_nstep_td_error` for values learned under ``trans_fn``.

    The public positional order differs from it: here ``lambda_one_step_td`` precedes ``margin_function``.
    """
    q, next_n_q, action, next_n_action, reward, done, done_one_step, weight, next_q, next_action, is_expert = data
    taken = select(q, action)
    with torch.no_grad():
        total, discount = nstep_reward(reward, gamma, nstep, value_gamma, cum_reward)
        next_value = inv_trans_fn(select(next_n_q, next_n_action))
        target = trans_fn(bootstrap(total, next_value, done, discount))
        first_reward, first_gamma = reward if cum_reward else reward[0], gamma if isinstance(gamma, float) else gamma[0]
        next_value = inv_trans_fn(select(next_q, next_action))
        one_step_target = trans_fn(bootstrap(first_reward, next_value, done_one_step, first_gamma))
    n_step_loss, n_step = td_loss(taken, target, None, criterion)
    one_step_loss, one_step = td_loss(taken, one_step_target, None, criterion)
    # Excess of the best other action, including the margin, over the expert's; 0 for samples of the agent.
    handicap = torch.full_like(q, margin_function).scatter_(-1, action.unsqueeze(-1), 0.0)
    margin = is_expert * ((q + handicap).amax(-1) - taken)
    parts = lambda_n_step_td * n_step, lambda_one_step_td * one_step, lambda_supervised_loss * margin
    per_sample = parts[0] + parts[1] + parts[2]
    priority = parts[0].abs() + parts[1].abs() + parts[2].abs()
    return weighted_mean(per_sample, weight), priority, (n_step_loss, one_step_loss, margin.mean())
