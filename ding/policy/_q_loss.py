"""What the losses of the value-based algorithms have in common."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

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
    return (logit if mask is None else logit.masked_fill(mask <= 0, -torch.inf)).argmax(-1)


def next_values(network: Network, target_network: Network, batch: Mapping[str, Any]) -> tuple[Any, torch.Tensor]:
    """The output of the target network for the next observations, and the actions that the network would choose there
    (double Q-learning, arXiv:1509.06461).
    """
    with torch.no_grad():
        target = target_network(batch["next_obs"])
        return target, greedy(network(batch["next_obs"])["logit"], next_action_mask(batch))


def mean_values(logit: torch.Tensor, target_logit: torch.Tensor) -> dict[str, torch.Tensor]:
    """The means of all values of the network and of the target network, to log."""
    return {"q_value": logit.detach().mean(), "target_q_value": target_logit.mean()}
