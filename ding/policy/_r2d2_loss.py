"""The loss of R2D2 (Kapturowski et al. 2019, openreview r1lyTjAqYX)."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import torch

from ding.policy._learning.q_values import Network, greedy
from ding.policy._samples.learned_steps import LearnedSteps, at_steps, learned_steps, valid_steps
from ding.rl_utils import q_nstep_td_data, q_nstep_td_error, q_nstep_td_error_with_rescale
from ding.utils.nested import map_nested


class SequenceLoss(NamedTuple):
    """What a loss over B sequences returns; only ``loss`` carries gradients that are used."""

    #: 0-d, the mean over the steps that are learned.
    loss: torch.Tensor
    #: Squared errors ``[S, B]``, 0 where a step is not learned.
    error: torch.Tensor
    #: Further values to log, each 0-d.
    numbers: dict[str, torch.Tensor]
    #: ``[S, B]``: 1 for a step that is learned, else 0.
    valid: torch.Tensor


def r2d2_loss(
    network: Network,
    target_network: Network,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    burnin: int,
    value_rescale: bool,
) -> SequenceLoss:
    """The loss of recurrent double Q-learning over sequences of T steps.

    The first ``burnin`` steps bring the recurrent state up to date. Both networks bootstrap from states that they
    computed themselves from the first step on.

    Args:
        network, target_network: ``{'obs', 'prev_state'}`` to ``logit`` ``[T, B, actions]`` and ``next_state``.
        batch: time first: ``obs`` ``[T, B, ...]``; ``action`` int64, ``done``, optional ``value_gamma``, ``null``
            (1: a step that only fills the sequence up) and ``learned`` ``[T, B]``; ``reward`` ``[nstep, T, B]``;
            ``weight`` ``[B]`` or None; ``prev_state``: the stored state before the first step, ``{'h', 'c'}`` of
            ``[layers, B, H]``. Without ``learned`` the steps from ``burnin`` to ``T - nstep`` are.
        gamma: discount of a step.
        value_rescale: learn ``h(Q)`` of Pohlen et al. 2018 (arXiv:1805.11593).
    """
    obs, state = batch["obs"], batch["prev_state"]
    steps = learned_steps(batch, nstep, burnin)
    with torch.no_grad():
        target_q = at_steps(target_network({"obs": obs, "prev_state": state})["logit"], steps.ahead)
    # One pass gives the values to learn and the actions of the bootstrap.
    values = sequence_values(network, batch, steps, burnin)
    q, next_action = learned_and_next(values, obs, steps)
    return nstep_loss(q, target_q, next_action, batch, steps, gamma, nstep, value_rescale, first=burnin)


def sequence_values(network: Network, batch: Mapping[str, Any], steps: LearnedSteps, burnin: int) -> torch.Tensor:
    """The values ``[T - steps.start, B, actions]`` from the first learned step to the end of the sequence.

    No gradient of a step behind the burn-in reaches into it, but in sequences whose burn-in is learned.
    """
    obs, state = batch["obs"], batch["prev_state"]
    if steps.start == burnin:
        with torch.no_grad():
            state = advance(network, obs, state, slice(0, burnin))
        return network({"obs": map_nested(lambda x: x[burnin:], obs), "prev_state": state})["logit"]
    before = network({"obs": map_nested(lambda x: x[:burnin], obs), "prev_state": state})
    known = (steps.valid[:burnin].sum(0) > 0).view(1, -1, 1)
    state = map_nested(lambda x: torch.where(known, x, x.detach()), joined_state(before["next_state"]))
    after = network({"obs": map_nested(lambda x: x[burnin:], obs), "prev_state": state})
    return torch.cat([before["logit"], after["logit"]])


def joined_state(state: Any) -> Any:
    """A recurrent state as ``{'h', 'c'}`` of ``[layers, B, H]``, from that or from a list of B states."""
    if isinstance(state, Mapping):
        return state
    return {key: torch.cat([row[key] for row in state], dim=1) for key in state[0]}


def learned_and_next(values: torch.Tensor, obs: Any, steps: LearnedSteps) -> tuple[torch.Tensor, torch.Tensor]:
    """The values ``[S, B, actions]`` of the learned steps, and the best allowed actions int64 ``[S, B]`` of those whose
    values are bootstrapped.

    Args:
        values: from the first learned step on.
    """
    mask = obs.get("action_mask") if isinstance(obs, Mapping) else None
    best = greedy(values.detach(), None if mask is None else mask[steps.start :])
    return values[: steps.stop - steps.start], best.gather(0, steps.ahead - steps.start)


def burned_in(batch: Mapping[str, Any], nstep: int, burnin: int) -> dict[str, Any]:
    """The batch of :func:`r2d2_loss` as the original API cuts it, for losses that go through the steps one by one.

    Returns:
        ``burnin_nstep_obs``, the observations of the first ``burnin + nstep`` steps; ``main_obs`` and ``target_obs``,
        those of the S learned steps and of the ones ``nstep`` later; ``action`` int64 ``[S, B]``, ``reward`` ``[S, B,
        nstep]``, ``done`` and ``weight`` (0 for a step that does not count) ``[S, B]``, ``value_gamma`` ``[S, B]`` or a
        list of None; ``prev_state``, whose first entry is the list of B states ``{'h', 'c'}`` of ``[layers, 1, H]``.
    """
    steps = len(batch["done"]) - nstep
    learned, ahead = slice(burnin, steps), slice(burnin + nstep, None)
    parts = {"burnin_nstep_obs": slice(0, burnin + nstep), "main_obs": learned, "target_obs": ahead}
    weight = valid_steps(batch, learned, ahead)
    weight = weight / weight.mean().clamp(min=1 / weight.numel())
    gammas = batch.get("value_gamma")
    state: Mapping[str, torch.Tensor] = batch["prev_state"]
    rows = range(batch["done"].shape[1])
    return {
        **{name: map_nested(itemgetter(part), batch["obs"]) for name, part in parts.items()},
        "action": batch["action"][learned],
        "reward": batch["reward"][:, learned].permute(1, 2, 0).contiguous(),
        "done": batch["done"][learned],
        "weight": weight if batch["weight"] is None else weight * batch["weight"],
        "value_gamma": [None] * (steps - burnin) if gammas is None else gammas[learned],
        "prev_state": [[{key: value[:, [row]] for key, value in state.items()} for row in rows]],
    }


def nstep_loss(
    q: torch.Tensor,
    target_q: torch.Tensor,
    next_action: torch.Tensor,
    batch: Mapping[str, Any],
    steps: LearnedSteps,
    gamma: float,
    nstep: int,
    value_rescale: bool,
    first: int,
) -> SequenceLoss:
    """The loss of double Q-learning with n-step returns at S learned steps of sequences.

    Args:
        q: ``[S, B, actions]`` at these steps; ``target_q`` at those whose values are bootstrapped.
        next_action: int64 ``[S, B]``, the greedy actions there.
        batch: see :func:`r2d2_loss`.
        first: the position of the step whose values are logged.
    """
    here, valid = steps.here, steps.valid
    action, value_gamma = batch["action"][here], batch.get("value_gamma")
    weight = valid if batch["weight"] is None else valid * batch["weight"]
    data = q_nstep_td_data(
        q.flatten(0, 1),
        target_q.flatten(0, 1),
        action.flatten(),
        next_action.flatten(),
        batch["reward"][:, here].flatten(1, 2),
        batch["done"][here].flatten(),
        weight.flatten(),
    )
    td_error = q_nstep_td_error_with_rescale if value_rescale else q_nstep_td_error
    loss, error = td_error(data, gamma, nstep, value_gamma=None if value_gamma is None else value_gamma[here].flatten())
    logged = first - steps.start
    return shared_loss(loss, error, valid, first_step_values(q[logged], target_q[logged], action[logged]))


def first_step_values(q: torch.Tensor, target_q: torch.Tensor, action: torch.Tensor) -> dict[str, torch.Tensor]:
    """The means of the values at the first learned step, to log.

    Args:
        q, target_q: ``[B, actions]``; the target network's are those of the bootstrap.
        action: int64 ``[B]``.
    """
    return {
        "q_s_taken-a_t0": q.detach().gather(-1, action.unsqueeze(-1)).mean(),
        "target_q_s_max-a_t0": target_q.max(-1).values.mean(),
        "q_s_a-mean_t0": q.detach().mean(),
    }


def shared_loss(
    loss: torch.Tensor, error: torch.Tensor, valid: torch.Tensor, numbers: dict[str, torch.Tensor]
) -> SequenceLoss:
    """The loss as a mean over the steps that count, where it was one over all; ``valid`` ``[T, B]`` is 1 for these."""
    share = valid.mean().clamp(min=1 / valid.numel())
    return SequenceLoss(loss / share, error.detach().view_as(valid) * valid, numbers, valid)


def advance(network: Network, obs: Any, state: Any, steps: slice) -> Any:
    """The recurrent state after these steps."""
    if steps.start == steps.stop:
        return state
    return network({"obs": map_nested(lambda x: x[steps], obs), "prev_state": state})["next_state"]
