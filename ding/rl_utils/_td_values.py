"""TD errors of action and state values, lambda returns, and helpers of all TD errors: selection of values, alignment of
ranks, n-step returns, weighting. Per-sample errors are losses (squared by the default criterion), not priorities.

Everything here keeps the number of torch calls low: at usual batch sizes they dominate the time of a learner iteration.
"""

from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ding.rl_utils._types import Data, Gamma, LossAndPerSample, ValueGamma
from ding.rl_utils.gae import backward_sums
from ding.rl_utils.value_rescale import value_inv_transform, value_transform

MSE = nn.MSELoss(reduction="none")
# Bound of soft values outside the range of floats.
_SOFT_VALUE_LIMIT = 20.0

PerStep = float | torch.Tensor

nstep_return_data = namedtuple("nstep_return_data", "reward next_value done")
q_1step_td_data = namedtuple("q_1step_td_data", "q next_q act next_act reward done weight")
m_q_1step_td_data = namedtuple("m_q_1step_td_data", "q target_q next_q act reward done weight")
q_v_1step_td_data = namedtuple("q_v_1step_td_data", "q v act reward done weight")
q_nstep_td_data = namedtuple("q_nstep_td_data", "q next_n_q action next_n_action reward done weight")
v_1step_td_data = namedtuple("v_1step_td_data", "v next_v reward done weight")
v_nstep_td_data = namedtuple("v_nstep_td_data", "v next_n_v reward done weight value_gamma")
td_lambda_data = namedtuple("td_lambda_data", "value reward weight")


def select(values: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Select ``values`` ``[*S, N]`` at ``action`` ``[*S]`` or ``[*S, 1]``, giving ``[*S]``."""
    if action.dim() < values.dim():
        action = action.unsqueeze(-1)
    return values.gather(-1, action).squeeze(-1)


def align(value: torch.Tensor, rank: int) -> torch.Tensor:
    """Append dimensions of size 1 until ``value`` has ``rank`` dimensions, so that rows are aligned."""
    while value.dim() < rank:
        value = value.unsqueeze(-1)
    return value


def view_similar(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return ``x`` with trailing dimensions of size 1 appended up to the rank of ``target``."""
    return align(x, target.dim())


def weighted_mean(per_sample: torch.Tensor, weight: torch.Tensor | float | None) -> torch.Tensor:
    """Return the mean of ``per_sample`` times ``weight`` (``None``: ones; or one number), with rows aligned."""
    if weight is None:
        return per_sample.mean()
    return (per_sample * (align(weight, per_sample.dim()) if isinstance(weight, torch.Tensor) else weight)).mean()


def td_loss(
    prediction: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | float | None, criterion: nn.Module
) -> LossAndPerSample:
    """Return ``criterion(prediction, target)`` as weighted mean and per sample."""
    # The default criterion without the overhead of a module call.
    per_sample = (prediction - target).square() if criterion is MSE else criterion(prediction, target)
    return weighted_mean(per_sample, weight), per_sample


@lru_cache(maxsize=64)
def discount_powers(gamma: float, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return ``1, gamma, gamma^2, ...``, ``count`` powers; the tensor is cached and shared."""
    return torch.tensor([gamma**i for i in range(count)], dtype=dtype, device=device)


def nstep_reward(
    reward: torch.Tensor,
    gamma: Gamma,
    nstep: int,
    value_gamma: ValueGamma = None,
    cum_reward: bool = False,
) -> tuple[torch.Tensor, float | torch.Tensor]:
    """Return the discounted sum of the rewards ``[n, B, ...]`` and the discount of the bootstrap value. With
    ``cum_reward``, rewards ``[B, ...]`` are already summed. ``value_gamma`` replaces the discount.
    """
    if cum_reward:
        if value_gamma is None and not isinstance(gamma, float):
            raise TypeError(f"gamma must be a float with cum_reward, got {type(gamma).__name__}")
        return reward, gamma**nstep if value_gamma is None else value_gamma  # type: ignore[operator]
    # AssertionError is part of the public contract; raised explicitly so that `python -O` keeps it.
    if reward.shape[0] != nstep:
        raise AssertionError(f"reward must have nstep={nstep} rows (time first), got shape {tuple(reward.shape)}")
    discount: float | torch.Tensor
    if isinstance(gamma, float):
        if not reward.is_floating_point():
            reward = reward.to(torch.get_default_dtype())  # integers would round the discounts to 0
        total, discount = reward[0], gamma**nstep
        if nstep > 1:
            powers = discount_powers(gamma, nstep, reward.dtype, reward.device)
            total = (powers @ reward.reshape(nstep, -1)).view(total.shape)
    elif isinstance(gamma, (list, tuple)):
        if gamma and all(isinstance(one, torch.Tensor) and one.dim() == 0 for one in gamma):
            gamma = [torch.stack(list(gamma))] * nstep  # one per sample
        if len(gamma) != nstep:
            raise ValueError(f"gamma must hold nstep={nstep} tensors [B] or one number per sample, got {len(gamma)}")
        total, discount = reward[0], align(gamma[0], reward.dim() - 1)
        for following, factor in zip(reward[1:], gamma[1:]):
            total = total + discount * following
            discount = discount * align(factor, reward.dim() - 1)
    else:
        raise TypeError(f"gamma must be a float or a list of {nstep} tensors, got {type(gamma).__name__}: {gamma!r}")
    return total, discount if value_gamma is None else value_gamma


def bootstrap(
    reward: torch.Tensor,
    next_value: torch.Tensor,
    done: torch.Tensor | None,
    discount: float | torch.Tensor,
) -> torch.Tensor:
    """``reward + discount * next_value * (1 - done)`` with the rows of all of them aligned to ``next_value``."""
    rank = next_value.dim()
    if done is not None:
        # In this form `done` may be boolean, too.
        next_value = next_value - next_value * align(done, rank)
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
            Missing trailing dimensions of ``reward`` and ``done`` are added.
        gamma: Discount factor, typically 0.95 to 0.999; or a list of B 0-d tensors, one per sample; or a list of n
            tensors ``[B]`` whose products are the discounts.
        value_gamma: ``G``, a number or ``[B]``; default ``gamma^n``.

    Returns the return, of the shape of ``next_value``. Raises ``AssertionError`` if ``reward`` does not have n rows,
    and ``TypeError`` for other types of ``gamma``.
    """
    reward, next_value, done = data
    total, discount = nstep_reward(reward, gamma, nstep, value_gamma)
    return bootstrap(total, next_value, done, discount)


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
    return td_loss(select(q, act), target, weight, criterion)[0]


def q_v_1step_td_error(data: Data, gamma: float, criterion: nn.Module = MSE) -> LossAndPerSample:
    """TD error of action values against state values: ``(loss, per-sample)``.

    ``data``: ``q_v_1step_td_data``; q ``[B, N]`` and act ``[B]``, or ``[B, A, N]`` and ``[B, A]``; v of the shape of
    act.
    """
    q, v, act, reward, done, weight = data
    with torch.no_grad():
        target = bootstrap(reward, v, done, gamma)
    return td_loss(select(q, act), target, weight, criterion)


def m_q_1step_td_error(
    data: Data, gamma: float, tau: float, alpha: float, criterion: nn.Module = MSE
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Munchausen TD error (Vieillard et al. 2020, arXiv:2007.14430).

    ``data``: ``m_q_1step_td_data``; q of the learner, target_q of the target network for the same state and next_q for
    the next one, ``[B, N]``. ``tau`` is the entropy temperature, typically 0.03; ``alpha`` scales the clipped
    log-policy bonus, typically 0.9.

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
    return *td_loss(select(q, act), target, weight, criterion), action_gap, clipped


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
        total, discount = nstep_reward(reward, gamma, nstep, value_gamma, cum_reward)
        target = bootstrap(total, select(next_n_q, next_n_action), done, discount)
    return td_loss(select(q, action), target, weight, criterion)


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
    branches. Already summed rewards ``[T, B]`` (``cum_reward``) give errors ``[T, B]``, of the same values against T
    targets.
    """
    q, next_n_q, action, next_n_action, reward, done, weight = data
    if cum_reward and reward.dim() == 2 and reward.shape[1] == len(q) > 1:
        if isinstance(weight, torch.Tensor):
            weight = weight.expand_as(reward)
        data = (q, next_n_q, action, next_n_action, reward.unsqueeze(-1), done, weight)
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
        total, discount = nstep_reward(reward, gamma, nstep, value_gamma)
        next_value = inv_trans_fn(select(next_n_q, next_n_action))
        target = trans_fn(bootstrap(total, next_value, done, discount))
    return td_loss(select(q, action), target, weight, criterion)


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

    As :func:`q_nstep_td_error`; the next value is ``alpha * logsumexp(next_n_q / alpha)``, and next_n_action is
    ignored. Higher ``alpha`` makes the policy more random. Infinite soft values count as plus or minus 20.
    """
    q, next_n_q, action, _, reward, done, weight = data
    with torch.no_grad():
        next_value = alpha * torch.logsumexp(next_n_q / alpha, dim=-1)
        infinite = torch.isinf(next_value)
        next_value = torch.where(infinite, _SOFT_VALUE_LIMIT * torch.sign(next_value), next_value)
        total, discount = nstep_reward(reward, gamma, nstep, value_gamma, cum_reward)
        target = bootstrap(total, next_value, done, discount)
    return *td_loss(select(q, action), target, weight, criterion), next_value


def v_1step_td_error(data: Data, gamma: float, criterion: nn.Module = MSE) -> LossAndPerSample:
    """One-step TD error of state values: ``(loss, per-sample)``.

    ``data``: ``v_1step_td_data``; v and next_v ``[B]`` or ``[B, A]``, reward, done (or ``None``) and weight ``[B]``.
    """
    v, next_v, reward, done, weight = data
    with torch.no_grad():
        target = bootstrap(reward, next_v, done, gamma)
    return td_loss(v, target, weight, criterion)


def v_nstep_td_error(data: Data, gamma: Gamma, nstep: int = 1, criterion: nn.Module = MSE) -> LossAndPerSample:
    """n-step TD error of state values: ``(loss, per-sample)``.

    ``data``: ``v_nstep_td_data``; v and next_n_v ``[B]``, reward ``[n, B]``, done, weight and value_gamma ``[B]``.
    """
    v, next_n_v, reward, done, weight, value_gamma = data
    with torch.no_grad():
        total, discount = nstep_reward(reward, gamma, nstep, value_gamma)
        target = bootstrap(total, next_n_v, done, discount)
    return td_loss(v, target, weight, criterion)


def multistep_forward_view(
    bootstrap_values: torch.Tensor,
    rewards: torch.Tensor,
    gammas: PerStep,
    lambda_: PerStep,
    done: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lambda returns (Sutton and Barto 2018, 12.1) of a segment of T steps.

    ``bootstrap_values`` ``[T, B]`` are the values of the *next* states, rewards ``[T, B]``, ``gammas`` (typically 0.95
    to 0.999) and ``lambda_`` (typically 0.8 to 0.97) numbers or ``[T, B]``, done ``[T, B]`` or ``None``. Returns ``[T,
    B]``.
    """
    carried = gammas * lambda_ * torch.ones_like(rewards)
    fresh = gammas * (1 - lambda_) * bootstrap_values
    last = (gammas[-1] if isinstance(gammas, torch.Tensor) else gammas) * bootstrap_values[-1]
    if done is not None:
        mask = 1 - done.to(rewards.dtype)
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
