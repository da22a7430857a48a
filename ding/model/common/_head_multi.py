"""Several heads of one kind over the same features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn


class MultiHead(nn.Module):
    """One head per entry of ``output_size_list``, for multi-discrete actions.

    State: ``pred.i`` per head.

    Arguments:
        head_cls: makes a head from ``(hidden_size, output_size, **head_kwargs)``.
    """

    def __init__(
        self, head_cls: Callable[..., nn.Module], hidden_size: int, output_size_list: Sequence[int], **head_kwargs: Any
    ) -> None:
        super().__init__()
        self.pred = nn.ModuleList(head_cls(hidden_size, size, **head_kwargs) for size in output_size_list)

    def forward(self, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        """Features ``[B, hidden_size]`` to the outputs of the heads: per key a list of one tensor per head."""
        outputs = [head(x) for head in self.pred]
        return {key: [output[key] for output in outputs] for key in outputs[0]}


def independent_normal_dist(
    logits: Sequence[torch.Tensor] | dict[str, torch.Tensor],
) -> torch.distributions.Distribution:
    """The normal distribution over the last axis of ``[mu, sigma]`` or ``{'mu', 'sigma'}``."""
    mu, sigma = (logits["mu"], logits["sigma"]) if isinstance(logits, dict) else logits
    return torch.distributions.Independent(torch.distributions.Normal(mu, sigma), 1)
