"""Categorical distributional TD errors (C51; Bellemare et al. 2017, arXiv:1707.06887)."""

from collections import namedtuple

import torch

from ding.rl_utils._td_values import bootstrap, nstep_reward, weighted_mean
from ding.rl_utils._types import Data, Gamma, LossAndPerSample, ValueGamma
from ding.torch_utils.graph.recording import current_recording

dist_1step_td_data = namedtuple("dist_1step_td_data", "dist next_dist act next_act reward done weight")
# The type name is the public one, although the fields differ.
dist_nstep_td_data = namedtuple("dist_1step_td_data", "dist next_n_dist act next_n_act reward done weight")  # type: ignore[name-match]


def _at_action(dist: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
    """Select ``dist`` ``[*S, N, n_atom]`` at ``act`` ``[*S]``, giving ``[*S, n_atom]``."""
    index = act[..., None, None].expand(*act.shape, 1, dist.shape[-1])
    return dist.gather(-2, index).squeeze(-2)


def _project(target_support: torch.Tensor, probability: torch.Tensor, v_min: float, v_max: float) -> torch.Tensor:
    """Project the mass at ``target_support`` ``[*S, n_atom]`` onto the fixed atoms, split between both neighbours."""
    n_atom = probability.shape[-1]
    position = (target_support.clamp(v_min, v_max) - v_min) / ((v_max - v_min) / (n_atom - 1))
    # Rounding may move an end of the support past the last atom.
    position = position.clamp(0, n_atom - 1)
    lower, upper = position.floor(), position.ceil()
    # On an atom, both neighbours coincide: move one away; the split gives it no mass.
    lower = lower - ((upper > 0) & (lower == upper)).to(lower.dtype)
    upper = upper + ((lower < n_atom - 1) & (lower == upper)).to(upper.dtype)
    # In mixed precision the distribution is less exact than the support.
    projected = torch.zeros_like(probability, dtype=torch.promote_types(probability.dtype, position.dtype))
    projected.scatter_add_(-1, lower.long(), probability * (upper - position))
    return projected.scatter_add_(-1, upper.long(), probability * (position - lower))


def projected_cross_entropy(
    dist: torch.Tensor, next_dist: torch.Tensor, moved_atoms: torch.Tensor, v_min: float, v_max: float
) -> torch.Tensor:
    """Return the cross entropy between categorical return distributions and their targets: ``[*S]``.

    Args:
        dist: predicted probabilities of ``n_atom`` atoms evenly spaced in ``[v_min, v_max]``, ``[*S, n_atom]``.
        next_dist: probabilities of the atoms in the next state, ``[*S, n_atom]``.
        moved_atoms: Target positions of the atoms, ``reward + discount * atom``, ``[*S, n_atom]``. Their mass is
            projected onto the fixed atoms. No gradient reaches it or ``next_dist``.

    Raises:
        AssertionError: ``dist`` does not contain probabilities.
    """
    if current_recording.get() is None and not bool((dist >= 0).all()):
        raise AssertionError("dist must hold probabilities: found a negative or NaN entry (were logits passed?)")
    with torch.no_grad():
        target = _project(moved_atoms, next_dist, v_min, v_max)
    # A probability may underflow to 0; its logarithm must stay finite.
    return -(target * dist.clamp_min(torch.finfo(dist.dtype).tiny).log()).sum(-1)


def dist_nstep_td_error(
    data: Data,
    gamma: Gamma,
    v_min: float,
    v_max: float,
    n_atom: int,
    nstep: int = 1,
    value_gamma: ValueGamma = None,
) -> LossAndPerSample:
    """n-step cross entropy between projected target and predicted distribution: ``(loss, per-sample)``.

    ``data``: ``dist_nstep_td_data``; dist and next_n_dist probabilities ``[B, N, n_atom]`` over atoms evenly spaced in
    ``[v_min, v_max]``, act and next_n_act ``[B]`` (or ``[B, A]`` with ``[B, A, N, n_atom]``), reward ``[n, B]``, done
    and weight ``[B]``. Raises ``AssertionError`` when ``dist`` at the action holds no probabilities.
    """
    dist, next_n_dist, act, next_n_act, reward, done, weight = data
    with torch.no_grad():
        support = torch.linspace(v_min, v_max, n_atom, dtype=dist.dtype, device=dist.device)
        probability = _at_action(next_n_dist, next_n_act)
        total, discount = nstep_reward(reward, gamma, nstep, value_gamma)
        moved = bootstrap(total, support.expand_as(probability), done, discount)
    per_sample = projected_cross_entropy(_at_action(dist, act), probability, moved, v_min, v_max)
    return weighted_mean(per_sample, weight), per_sample


def dist_1step_td_error(data: Data, gamma: float, v_min: float, v_max: float, n_atom: int) -> torch.Tensor:
    """:func:`dist_nstep_td_error` for one step and reward ``[B]``; returns the loss only."""
    dist, next_dist, act, next_act, reward, done, weight = data
    one_step = dist_nstep_td_data(dist, next_dist, act, next_act, reward.unsqueeze(0), done, weight)
    return dist_nstep_td_error(one_step, gamma, v_min, v_max, n_atom)[0]
