"""TD errors of action values. Per-sample errors are losses (squared by the default criterion), not priorities."""

from collections import namedtuple
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from ding.rl_utils._td_common import MSE, bootstrap, elementwise, select, td_target, weighted_mean
from ding.rl_utils._types import Data, Gamma, LossAndPerSample, ValueGamma
from ding.rl_utils.value_rescale import value_inv_transform, value_transform

q_1step_td_data = namedtuple("q_1step_td_data", "q next_q act next_act reward done weight")
m_q_1step_td_data = namedtuple("m_q_1step_td_data", "q target_q next_q act reward done weight")
q_v_1step_td_data = namedtuple("q_v_1step_td_data", "q v act reward done weight")
q_nstep_td_data = namedtuple("q_nstep_td_data", "q next_n_q action next_n_action reward done weight")

# Soft values beyond the range of floats are cut to this size.
_SOFT_VALUE_LIMIT = 20.0


def q_1step_td_error(data: Data, gamma: float, criterion: nn.Module = MSE) -> torch.Tensor:
    """One-step TD loss of action values (Watkins and Dayan 1992), a 0-d tensor.

    ``data``: ``q_1step_td_data``; q and next_q ``[B, N]``, act and next_act int64 ``[B]``, reward, done, weight
    ``[B]``. Raises ``AssertionError`` when act or reward is not 1-D.
    """
    q, next_q, act, next_act, reward, done, weight = data
    if act.dim() != 1 or reward.dim() != 1:
        raise AssertionError(f"act and reward must be [B], got {tuple(act.shape)} and {tuple(reward.shape)}")
    with torch.no_grad():
        target = bootstrap(reward, select(next_q, next_act), done, gamma)
    return weighted_mean(elementwise(criterion, select(q, act), target), weight)


def q_v_1step_td_error(data: Data, gamma: float, criterion: nn.Module = MSE) -> LossAndPerSample:
    """TD error of action values against state values: ``(loss, per-sample)``.

    ``data``: ``q_v_1step_td_data``; q ``[B, N]`` and act ``[B]``, or ``[B, A, N]`` and ``[B, A]``; v of the shape of
    act.
    """
    q, v, act, reward, done, weight = data
    with torch.no_grad():
        target = bootstrap(reward, v, done, gamma)
    per_sample = elementwise(criterion, select(q, act), target)
    return weighted_mean(per_sample, weight), per_sample


def m_q_1step_td_error(
    data: Data, gamma: float, tau: float, alpha: float, criterion: nn.Module = MSE
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Munchausen TD error (Vieillard et al. 2020, arXiv:2007.14430).

    ``data``: ``m_q_1step_td_data``; q of the learner, target_q of the target network for the same state and next_q for
    the next one, ``[B, N]``. ``tau`` is the entropy temperature, ``alpha`` scales the clipped log-policy bonus.

    Returns ``(loss, per-sample [B], mean gap between the best two target values, clip flags float [B, 1])``.
    """
    q, target_q, next_q, act, reward, done, weight = data
    lower, upper = -1.0, 1.0
    with torch.no_grad():
        log_policy = tau * F.log_softmax(target_q / tau, dim=-1)
        taken = log_policy.gather(-1, act.unsqueeze(-1))
        clipped = ((taken < lower) | (taken > upper)).to(q.dtype)
        next_policy = F.softmax(next_q / tau, dim=-1)
        next_log_policy = tau * F.log_softmax(next_q / tau, dim=-1)
        soft_value = (next_policy * (next_q - next_log_policy)).sum(-1)
        bonus = alpha * taken.squeeze(-1).clamp(lower, upper)
        target = bootstrap(reward + bonus, soft_value, done, gamma)
        best = target_q.topk(2, dim=-1).values
        action_gap = (best[..., 0] - best[..., 1]).mean()
    per_sample = elementwise(criterion, select(q, act), target)
    return weighted_mean(per_sample, weight), per_sample, action_gap, clipped


def q_nstep_td_error(
    data: Data,
    gamma: Gamma,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: ValueGamma = None,
    criterion: nn.Module = MSE,
) -> LossAndPerSample:
    """n-step TD error of action values: ``(loss, per-sample)``.

    ``data``: ``q_nstep_td_data``; q and next_n_q ``[B, N]``, action and next_n_action int64 ``[B]``, reward ``[n, B]``
    (``[B]`` with ``cum_reward``), done and weight ``[B]``. With agents: q ``[B, A, N]``, action ``[B, A]`` or
    ``[B, A, 1]``, per-sample ``[B, A]``; reward, done, weight and value_gamma hold for all agents of a row.
    ``value_gamma`` ``[B]`` replaces ``gamma^n``.
    """
    q, next_n_q, action, next_n_action, reward, done, weight = data
    with torch.no_grad():
        target = td_target(reward, select(next_n_q, next_n_action), done, gamma, nstep, cum_reward, value_gamma)
    per_sample = elementwise(criterion, select(q, action), target)
    return weighted_mean(per_sample, weight), per_sample


def bdq_nstep_td_error(
    data: Data,
    gamma: Gamma,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: ValueGamma = None,
    criterion: nn.Module = MSE,
) -> LossAndPerSample:
    """n-step TD error of a branching network (Tavakoli et al. 2018, arXiv:1711.08946): ``(loss, per-sample [B])``.

    As :func:`q_nstep_td_error` with q ``[B, D, N]`` and action ``[B, D]``; the error of a sample is the mean over its D
    branches.
    """
    loss, per_branch = q_nstep_td_error(data, gamma, nstep, cum_reward, value_gamma, criterion)
    return loss, per_branch.mean(-1)


def q_nstep_td_error_with_rescale(
    data: Data,
    gamma: Gamma,
    nstep: int = 1,
    value_gamma: ValueGamma = None,
    criterion: nn.Module = MSE,
    trans_fn: Callable[[torch.Tensor], torch.Tensor] = value_transform,
    inv_trans_fn: Callable[[torch.Tensor], torch.Tensor] = value_inv_transform,
) -> LossAndPerSample:
    """:func:`q_nstep_td_error` for values learned under ``trans_fn`` (Pohlen et al. 2018, arXiv:1805.11593)."""
    q, next_n_q, action, next_n_action, reward, done, weight = data
    with torch.no_grad():
        next_value = inv_trans_fn(select(next_n_q, next_n_action))
        target = trans_fn(td_target(reward, next_value, done, gamma, nstep, False, value_gamma))
    per_sample = elementwise(criterion, select(q, action), target)
    return weighted_mean(per_sample, weight), per_sample


def q_nstep_sql_td_error(
    data: Data,
    gamma: Gamma,
    alpha: float,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: ValueGamma = None,
    criterion: nn.Module = MSE,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Soft Q-learning (Haarnoja et al. 2017, arXiv:1702.08165): ``(loss, per-sample, soft next value)``.

    As :func:`q_nstep_td_error`; the next value is ``alpha * logsumexp(next_n_q / alpha)`` and next_n_action is not
    read. Infinite soft values count as plus or minus 20.
    """
    q, next_n_q, action, _, reward, done, weight = data
    with torch.no_grad():
        next_value = alpha * torch.logsumexp(next_n_q / alpha, dim=-1)
        infinite = torch.isinf(next_value)
        next_value = torch.where(infinite, _SOFT_VALUE_LIMIT * torch.sign(next_value), next_value)
        target = td_target(reward, next_value, done, gamma, nstep, cum_reward, value_gamma)
    per_sample = elementwise(criterion, select(q, action), target)
    return weighted_mean(per_sample, weight), per_sample, next_value
