"""The losses of Q-learning with demonstrations (Hester et al. 2018, arXiv:1704.03732; Paine et al. 2019,
arXiv:1909.01387).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ding.policy._q_loss import Network, QLoss, double_q_values, greedy, mean_values
from ding.policy._r2d2_loss import SequenceLoss, advance, first_step_values, sequence_values, shared_loss
from ding.policy._samples.learned_steps import at_steps, learned_steps
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
) -> SequenceLoss:
    """:func:`dqfd_loss` over sequences as those of ``r2d2_loss``, with the parts of the loss. A step is learned where
    its one-step target is defined, too.

    Args:
        batch: as for ``r2d2_loss``, and ``done_one_step``, ``is_expert`` ``[T, B]``.
        states_swapped: look n steps ahead from the state after one step and the other way round, as DI-engine does.
    """
    obs, done_1 = batch["obs"], batch["done_one_step"]
    steps = learned_steps(batch, nstep, burnin)
    last = len(done_1) - 1
    position = torch.arange(steps.start, steps.stop, device=done_1.device).unsqueeze(1)
    following = (position + 1).clamp(max=last).expand_as(steps.ahead)
    has_next = ((position < last) | (done_1[steps.here] > 0)).to(steps.valid)
    steps = steps._replace(valid=steps.valid * has_next)
    values = sequence_values(network, batch, steps, burnin)
    q, seen = values[: steps.stop - steps.start], values.detach()
    with torch.no_grad():
        if states_swapped:
            target_qs = _swapped_values(target_network, batch, nstep, burnin)
            seen_qs = _swapped_values(network, batch, nstep, burnin)
        else:
            target_values = target_network({"obs": obs, "prev_state": batch["prev_state"]})["logit"]
            target_qs = at_steps(target_values, steps.ahead), at_steps(target_values, following)
            seen_qs = at_steps(seen, steps.ahead - steps.start), at_steps(seen, following - steps.start)
        best, best_1 = _best_actions(seen_qs, obs, (steps.ahead, following))
    here, valid = steps.here, steps.valid
    weight = valid if batch["weight"] is None else valid * batch["weight"]
    data = dqfd_nstep_td_data(
        q.flatten(0, 1),
        target_qs[0].flatten(0, 1),
        batch["action"][here].flatten(),
        best.flatten(),
        batch["reward"][:, here].flatten(1, 2),
        batch["done"][here].flatten(),
        done_1[here].flatten(),
        weight.flatten(),
        target_qs[1].flatten(0, 1),
        best_1.flatten(),
        batch["is_expert"][here].flatten(),
    )
    value_gamma = batch.get("value_gamma")
    value_gamma = None if value_gamma is None else value_gamma[here].flatten()
    td_error = dqfd_nstep_td_error_with_rescale if value_rescale else dqfd_nstep_td_error
    loss, error, parts = td_error(data, gamma, nstep=nstep, value_gamma=value_gamma, **weights._asdict())
    logged = burnin - steps.start
    numbers = {**first_step_values(q[logged], target_qs[0][logged], batch["action"][burnin]), **_named(parts)}
    return shared_loss(loss, error, valid, numbers)


def _best_actions(
    values: tuple[torch.Tensor, torch.Tensor], obs: Any, positions: tuple[torch.Tensor, torch.Tensor]
) -> list[torch.Tensor]:
    """The best allowed actions by these values of the steps at these positions, which are int64 ``[S, B]``."""
    mask = obs.get("action_mask") if isinstance(obs, Mapping) else None
    return [
        greedy(value, None if mask is None else at_steps(mask, position))
        for value, position in zip(values, positions, strict=True)
    ]


def _swapped_values(
    network: Network, batch: Mapping[str, Any], nstep: int, burnin: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The values n steps after the learned steps, and those one step after them, each from the state that belongs to
    the other.
    """
    obs, state, stop = batch["obs"], batch["prev_state"], len(batch["done"])

    def values(start: int, steps: slice) -> torch.Tensor:
        begin = advance(network, obs, state, slice(0, start))
        return network({"obs": map_nested(lambda x: x[steps], obs), "prev_state": begin})["logit"]

    ahead, following = slice(burnin + nstep, stop), slice(burnin + 1, stop - nstep + 1)
    return values(burnin + 1, ahead), values(burnin + nstep, following)


def _named(parts: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    return {name: part.detach() for name, part in zip(("nstep_loss", "1step_loss", "sl_loss"), parts)}
