"""Planning in a model by model predictive path integral control (MPPI, Williams et al. 2015, arXiv:1509.01149), for all
environments at once.

Shapes: N environments, S sequences of H actions of size A, of which K are the elite and P are proposals of a policy.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

Draw = Callable[..., torch.Tensor]
"""Normal noise of the given sizes behind an axis of N environments, or of one entry that all of them share."""


class Plan(NamedTuple):
    """What :func:`mppi` found."""

    #: Of the normal distribution of each action, ``[N, H, A]``.
    mean: torch.Tensor
    std: torch.Tensor
    #: The best sequences of the last iteration, ``[N, K, H, A]``, and their weights, which sum to 1, ``[N, K]``.
    elites: torch.Tensor
    weights: torch.Tensor


def mppi(
    returns: Callable[[torch.Tensor], torch.Tensor],
    mean: torch.Tensor,
    proposals: torch.Tensor,
    cfg: Mapping[str, Any],
    draw: Draw,
) -> Plan:
    """Find sequences of actions in [-1, 1] with high returns.

    Each iteration draws sequences around the mean, keeps the elite of them and of the proposals, and moves mean and
    deviation to those of the elite, weighted by ``exp(temperature * return)``.

    Args:
        returns: sequences ``[N, S, H, A]`` to their returns ``[N, S]``.
        mean: what to begin with, ``[N, H, A]``.
        proposals: sequences that take part in each iteration, ``[N, P, H, A]``.
        cfg: the section ``policy.plan``.
        draw: gives the noise of each iteration, ``[N or 1, S - P, H, A]``.
    """
    horizon, width = mean.shape[1:]
    std = torch.full_like(mean, cfg["max_std"])
    for _ in range(cfg["iterations"]):
        noise = draw(cfg["num_samples"] - proposals.shape[1], horizon, width)
        drawn = (mean.unsqueeze(1) + std.unsqueeze(1) * noise).clamp(-1, 1)
        actions = torch.cat([proposals, drawn], 1)
        best = returns(actions).topk(cfg["num_elites"], dim=1)
        elites = actions.gather(1, best.indices[:, :, None, None].expand(-1, -1, horizon, width))
        weights = (cfg["temperature"] * best.values).softmax(1)
        share = weights[:, :, None, None]
        mean = (share * elites).sum(1)
        deviation = (share * (elites - mean.unsqueeze(1)).square()).sum(1).sqrt()
        std = deviation.clamp(cfg["min_std"], cfg["max_std"])
    return Plan(mean, std, elites, weights)


def drawn_actions(plan: Plan, draw: Draw) -> torch.Tensor:
    """Return the first actions ``[N, A]`` of elites drawn by their weights, with noise of the deviation."""
    chosen = torch.multinomial(plan.weights, 1)
    first = plan.elites[:, :, 0].gather(1, chosen.unsqueeze(-1).expand(-1, -1, plan.elites.shape[-1])).squeeze(1)
    return (first + plan.std[:, 0] * draw(first.shape[-1])).clamp(-1, 1)


def moved_on(mean: torch.Tensor) -> torch.Tensor:
    """Return a mean ``[N, H, A]`` one step later, as the next plan begins with it: the last action is 0."""
    return torch.cat([mean[:, 1:], torch.zeros_like(mean[:, :1])], 1)
