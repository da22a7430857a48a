"""The loss of DQN, and what the losses of the value-based algorithms have in common."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ding.rl_utils import q_nstep_td_data, q_nstep_td_error
from ding.torch_utils.math_helper import usable_mask

Network = Callable[[Any], Mapping[str, Any]]
"""Observations to ``logit`` ``[B, actions]``, and what else the algorithm's head gives."""


class QLoss(NamedTuple):
    """What the loss of a value-based algorithm returns; only ``loss`` carries gradients that are used."""

    #: 0-d.
    loss: torch.Tensor
    #: Per sample, ``[B]``: what priorities are made of.
    error: torch.Tensor
    #: Further values to log, each 0-d.
    numbers: dict[str, torch.Tensor]


def next_action_mask(batch: Mapping[str, Any]) -> Any:
    """``next_action_mask`` of the samples, or the ``action_mask`` of ``next_obs``, or None."""
    mask, next_obs = batch.get("next_action_mask"), batch["next_obs"]
    return next_obs.get("action_mask") if mask is None and isinstance(next_obs, Mapping) else mask


def greedy(logit: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The best allowed action of each row: int64 ``[B]``."""
    return (logit if mask is None else logit.masked_fill(usable_mask(mask) <= 0, -torch.inf)).argmax(-1)


def double_q_values(network: Network, target_network: Network, batch: Mapping[str, Any]) -> tuple[Any, torch.Tensor]:
    """The output of the target network for the next observations, and the actions that the network would choose there
    (double Q-learning, arXiv:1509.06461).
    """
    with torch.no_grad():
        target = target_network(batch["next_obs"])
        return target, greedy(network(batch["next_obs"])["logit"], next_action_mask(batch))


def mean_values(logit: torch.Tensor, target_logit: torch.Tensor) -> dict[str, torch.Tensor]:
    """The means of all values of the network and of the target network, to log."""
    return {"q_value": logit.detach().mean(), "target_q_value": target_logit.mean()}


def dqn_loss(
    network: Network, target_network: Network, batch: Mapping[str, Any], gamma: float, nstep: int = 1
) -> QLoss:
    """The loss of double Q-learning with n-step returns; the mean over the heads of a network with several.

    Args:
        network, target_network: observations to ``{'logit': Q}``, Q float ``[B, actions]`` or a list of such per head.
        batch: ``obs, next_obs`` ``[B, ...]``; ``action`` int64 ``[B]`` (``[B, heads]``, or a list, for several heads);
            ``reward`` ``[nstep, B]``; ``done``, ``weight`` (or None) ``[B]``; optional ``value_gamma`` ``[B]``, the
            discount of the bootstrap value; optional ``next_action_mask`` ``[B, actions]`` (1: allowed), by default the
            ``action_mask`` of ``next_obs``, where that is a dict.
        gamma: discount of a step.

    Returns:
        The loss, ``(Q - R)^2`` per sample (with several heads their mean), and the means of all values of the network
        and of the target network.
    """
    obs, next_obs = batch["obs"], batch["next_obs"]
    q_heads: Any = network(obs)["logit"]
    with torch.no_grad():
        target_heads: Any = target_network(next_obs)["logit"]
        next_heads: Any = network(next_obs)["logit"]
    masks = next_action_mask(batch)
    actions = batch["action"]
    if isinstance(q_heads, torch.Tensor):
        q_heads, target_heads, next_heads, actions = [q_heads], [target_heads], [next_heads], [actions]
    elif isinstance(actions, torch.Tensor):
        actions = [actions] if len(q_heads) == 1 else actions.unbind(-1)
    losses, errors = [], []
    for head, (q, target_q, next_q, action) in enumerate(zip(q_heads, target_heads, next_heads, actions)):
        mask = masks[head] if isinstance(masks, list) else masks
        data = q_nstep_td_data(
            q, target_q, action, greedy(next_q, mask), batch["reward"], batch["done"], batch["weight"]
        )
        loss, error = q_nstep_td_error(data, gamma, nstep=nstep, value_gamma=batch.get("value_gamma"))
        losses.append(loss)
        errors.append(error.detach())
    if len(losses) == 1:
        return QLoss(losses[0], errors[0], mean_values(q_heads[0], target_heads[0]))
    means = mean_values(torch.cat(q_heads, dim=-1), torch.cat(target_heads, dim=-1))
    return QLoss(torch.stack(losses).mean(), torch.stack(errors).mean(0), means)
