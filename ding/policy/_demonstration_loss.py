"""The losses of Q-learning with demonstrations (Hester et al. 2018, arXiv:1704.03732; Paine et al. 2019,
arXiv:1909.01387).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ding.policy._learning.q_values import Network, greedy
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


def demonstration_weights(learn_cfg: Mapping[str, Any]) -> DemonstrationWeights:
    """The weights in a ``learn`` section."""
    one_step = learn_cfg.get("lambda_one_step_td", 1.0)
    return DemonstrationWeights(learn_cfg["lambda1"], learn_cfg["lambda2"], one_step, learn_cfg["margin_function"])


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
    """The loss of :class:`~ding.policy.dqfd.DQFDPolicy` over sequences as those of ``r2d2_loss``, with its parts. A
    step is learned where its one-step target is defined, too.

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
