"""The loss of R2D2 (Kapturowski et al. 2019, openreview r1lyTjAqYX)."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import torch

from ding.policy._q_loss import Network, QLoss, greedy
from ding.rl_utils import q_nstep_td_data, q_nstep_td_error, q_nstep_td_error_with_rescale
from ding.utils.nested import map_nested


def r2d2_loss(
    network: Network,
    target_network: Network,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    burnin: int,
    value_rescale: bool,
) -> QLoss:
    """The loss of recurrent double Q-learning over sequences of T steps.

    The first ``burnin`` steps only bring the recurrent state up to date. Steps from there to ``T - nstep`` are learned;
    both networks bootstrap from states that they computed themselves up to step ``burnin + nstep``.

    Args:
        network, target_network: ``{'obs', 'prev_state'}`` to ``logit`` ``[T, B, actions]`` and ``next_state``.
        batch: time first: ``obs`` ``[T, B, ...]``; ``action`` int64, ``done``, optional ``value_gamma`` and ``null``
            (1: a step that only fills the sequence up) ``[T, B]``; ``reward`` ``[nstep, T, B]``; ``weight`` ``[B]`` or
            None; ``prev_state``: the stored state before the first step, ``{'h', 'c'}`` of ``[layers, B, H]``.
        gamma: discount of a step.
        value_rescale: learn ``h(Q)`` of Pohlen et al. 2018 (arXiv:1805.11593).

    Returns:
        The loss, the squared errors ``[T - burnin - nstep, B]`` (0 where a step does not count), and the means of the
        values at the first learned step.
    """
    obs, state, done = batch["obs"], batch["prev_state"], batch["done"]
    learned, ahead = slice(burnin, len(done) - nstep), slice(burnin + nstep, len(done))
    with torch.no_grad():
        start = advance(network, obs, state, slice(0, burnin))
        target_q = target_network({"obs": obs, "prev_state": state})["logit"][ahead]
    # One pass gives the values to learn and, nstep steps later, the actions of the bootstrap.
    values = network({"obs": map_nested(lambda x: x[burnin:], obs), "prev_state": start})["logit"]
    next_action = greedy(values.detach()[nstep:], mask_at(obs, ahead))
    q = values[: len(done) - nstep - burnin]
    return nstep_loss(q, target_q, next_action, batch, learned, gamma, nstep, value_rescale)


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


def mask_at(obs: Any, steps: slice) -> torch.Tensor | None:
    """The ``action_mask`` of these steps, where dict observations have one."""
    mask = obs.get("action_mask") if isinstance(obs, Mapping) else None
    return None if mask is None else mask[steps]


def nstep_loss(
    q: torch.Tensor,
    target_q: torch.Tensor,
    next_action: torch.Tensor,
    batch: Mapping[str, Any],
    learned: slice,
    gamma: float,
    nstep: int,
    value_rescale: bool,
) -> QLoss:
    """The loss of double Q-learning with n-step returns at the steps ``learned`` of sequences.

    Args:
        q: ``[S, B, actions]`` at these S steps; ``target_q`` ``nstep`` steps later.
        next_action: int64 ``[S, B]``, the greedy actions there.
        batch: see :func:`r2d2_loss`.
    """
    ahead = slice(learned.start + nstep, learned.stop + nstep)
    action, valid = batch["action"][learned], valid_steps(batch, learned, ahead)
    weight = valid if batch["weight"] is None else valid * batch["weight"]
    value_gamma = batch.get("value_gamma")
    data = q_nstep_td_data(
        q.flatten(0, 1),
        target_q.flatten(0, 1),
        action.flatten(),
        next_action.flatten(),
        batch["reward"][:, learned].flatten(1, 2),
        batch["done"][learned].flatten(),
        weight.flatten(),
    )
    td_error = q_nstep_td_error_with_rescale if value_rescale else q_nstep_td_error
    loss, error = td_error(
        data, gamma, nstep, value_gamma=None if value_gamma is None else value_gamma[learned].flatten()
    )
    return shared_loss(loss, error, valid, first_step_values(q[0], target_q[0], action[0]))


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
) -> QLoss:
    """The loss as a mean over the steps that count, where it was one over all; ``valid`` ``[T, B]`` is 1 for these."""
    share = valid.mean().clamp(min=1 / valid.numel())
    return QLoss(loss / share, error.detach().view_as(valid) * valid, numbers)


def advance(network: Network, obs: Any, state: Any, steps: slice) -> Any:
    """The recurrent state after these steps."""
    if steps.start == steps.stop:
        return state
    return network({"obs": map_nested(lambda x: x[steps], obs), "prev_state": state})["next_state"]


def valid_steps(batch: Mapping[str, Any], learned: slice, ahead: slice) -> torch.Tensor:
    """1.0 for each learned step that is no filling, and whose bootstrap value, if it has one, is of a real step."""
    done, null = batch["done"][learned], batch.get("null")
    if null is None:
        return torch.ones_like(done)
    null = null.float()
    return (1 - null[learned]) * (1 - null[ahead] * (1 - done))
