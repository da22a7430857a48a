"""The losses of Q-learning with demonstrations (Hester et al. 2018, arXiv:1704.03732; Paine et al. 2019,
arXiv:1909.01387).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ding.policy._q_loss import Network, QLoss, double_q_values, greedy, mean_values
from ding.policy._r2d2_loss import advance, first_step_values, mask_at, shared_loss, valid_steps
from ding.rl_utils import dqfd_nstep_td_data, dqfd_nstep_td_error, dqfd_nstep_td_error_with_rescale
from ding.utils.nested import map_nested


class DemonstrationWeights(NamedTuple):
    """How the parts of the loss are weighted."""

    lambda_n_step_td: float
    lambda_supervised_loss: float
    lambda_one_step_td: float
    #: By how much the value of the demonstrated action shall exceed all others.
    margin_function: float


def dqfd_loss(
    network: Network,
    target_network: Network,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    weights: DemonstrationWeights,
) -> QLoss:
    """Double Q-learning with n-step and one-step returns, and a large-margin loss towards the actions of experts.

    Args:
        network, target_network: observations to ``logit`` ``[B, actions]``.
        batch: as for :func:`ding.policy._q_loss.dqn_loss`, and ``next_obs_1``, ``done_1``: what follows after one step;
            ``is_expert`` ``[B]``: 1 for the samples of an expert.
        gamma: discount of a step.

    Returns:
        The loss; per sample the sum of the squared errors and of the margin loss, as weighted; the parts, and the means
        of all values of the two networks.
    """
    q = network(batch["obs"])["logit"]
    target_q, next_action = double_q_values(network, target_network, batch)
    next_batch = {**batch, "next_obs": batch["next_obs_1"]}
    target_q_1, next_action_1 = double_q_values(network, target_network, next_batch)
    data = dqfd_nstep_td_data(
        q,
        target_q["logit"],
        batch["action"],
        next_action,
        batch["reward"],
        batch["done"],
        batch["done_1"],
        batch["weight"],
        target_q_1["logit"],
        next_action_1,
        batch["is_expert"],
    )
    value_gamma = batch.get("value_gamma")
    loss, error, parts = dqfd_nstep_td_error(data, gamma, nstep=nstep, value_gamma=value_gamma, **weights._asdict())
    return QLoss(loss, error.detach(), {**mean_values(q, target_q["logit"]), **_named(parts)})


def r2d3_loss(
    network: Network,
    target_network: Network,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    burnin: int,
    value_rescale: bool,
    weights: DemonstrationWeights,
    states_swapped: bool = False,
) -> QLoss:
    """:func:`dqfd_loss` over sequences, as those of :func:`ding.policy._r2d2_loss.r2d2_loss`.

    Args:
        batch: as for ``r2d2_loss``, and ``done_one_step``, ``is_expert`` ``[T, B]``.
        states_swapped: begin to look n steps ahead with the state after one step and the other way round, as DI-engine
            does.

    Returns:
        As ``r2d2_loss``, with the parts of the loss.
    """
    obs, state, done = batch["obs"], batch["prev_state"], batch["done"]
    learned, ahead = slice(burnin, len(done) - nstep), slice(burnin + nstep, len(done))
    following = slice(burnin + 1, len(done) - nstep + 1)
    with torch.no_grad():
        starts = (burnin + 1, burnin + nstep) if states_swapped else None
        target_q, target_q_1 = _values(target_network, obs, state, (ahead, following), starts)
        values = _values(network, obs, state, (ahead, following), starts)
        best, best_1 = greedy(values[0], mask_at(obs, ahead)), greedy(values[1], mask_at(obs, following))
        start = advance(network, obs, state, slice(0, burnin))
    q = network({"obs": map_nested(lambda x: x[learned], obs), "prev_state": start})["logit"]
    valid = valid_steps(batch, learned, ahead)
    weight = valid if batch["weight"] is None else valid * batch["weight"]
    data = dqfd_nstep_td_data(
        q.flatten(0, 1),
        target_q.flatten(0, 1),
        batch["action"][learned].flatten(),
        best.flatten(),
        batch["reward"][:, learned].flatten(1, 2),
        done[learned].flatten(),
        batch["done_one_step"][learned].flatten(),
        weight.flatten(),
        target_q_1.flatten(0, 1),
        best_1.flatten(),
        batch["is_expert"][learned].flatten(),
    )
    value_gamma = batch.get("value_gamma")
    value_gamma = None if value_gamma is None else value_gamma[learned].flatten()
    td_error = dqfd_nstep_td_error_with_rescale if value_rescale else dqfd_nstep_td_error
    loss, error, parts = td_error(data, gamma, nstep=nstep, value_gamma=value_gamma, **weights._asdict())
    numbers = {**first_step_values(q[0], target_q[0], batch["action"][burnin]), **_named(parts)}
    return shared_loss(loss, error, valid, numbers)


def _values(
    network: Network, obs: Any, state: Any, ranges: tuple[slice, slice], starts: tuple[int, int] | None
) -> tuple[torch.Tensor, ...]:
    """``logit`` of two ranges of steps, from the states that the network computes itself from the first step on.

    Args:
        starts: begin each range with the state after so many steps instead.
    """
    if starts is None:
        logit = network({"obs": obs, "prev_state": state})["logit"]
        return tuple(logit[steps] for steps in ranges)

    def values(start: int, steps: slice) -> torch.Tensor:
        begin = advance(network, obs, state, slice(0, start))
        return network({"obs": map_nested(lambda x: x[steps], obs), "prev_state": begin})["logit"]

    return tuple(map(values, starts, ranges))


def _named(parts: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    return {name: part.detach() for name, part in zip(("nstep_loss", "1step_loss", "sl_loss"), parts)}
