"""Wrappers that choose continuous actions in ``[-1, 1]`` from a normal distribution squashed by tanh."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ding.model.wrapper._base import IModelWrapper


class SquashedDeterministicSampleWrapper(IModelWrapper):
    """``squashed_deterministic_sample``: the output is ``action``, ``tanh(mu)`` of ``logit``, the list of ``mu`` and
    ``sigma`` ``[B, N]``.

    Arguments:
        keep_logit: whether the output has ``logit``, too.
    """

    takes_arrays = True

    def __init__(self, model: nn.Module | IModelWrapper, keep_logit: bool = False) -> None:
        super().__init__(model)
        self._keep_logit = keep_logit

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and squash the mean."""
        output = self._tensors(args, kwargs)
        action = torch.tanh(output["logit"][0])
        return {"logit": output["logit"], "action": action} if self._keep_logit else {"action": action}


class SquashedSampleWrapper(IModelWrapper):
    """``squashed_sample``: the output is ``action``, ``tanh`` of a sample of the normal distribution with ``logit``,
    the list of ``mu`` and ``sigma`` ``[B, N]``; the sample has no gradient.

    Arguments:
        keep_logit: whether the output has ``logit``, too.
        squash_noise: whether the sample is squashed; else its mean is, and the action is clamped to ``[-1, 1]``.
    """

    takes_arrays = True

    def __init__(self, model: nn.Module | IModelWrapper, keep_logit: bool = False, squash_noise: bool = True) -> None:
        super().__init__(model)
        self._keep_logit, self._squash_noise = keep_logit, squash_noise

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and draw."""
        output = self._tensors(args, kwargs)
        with torch.no_grad():
            mu, sigma = output["logit"]
            noise = sigma * torch.randn(mu.shape, device=mu.device)
            action = torch.tanh(mu + noise) if self._squash_noise else (torch.tanh(mu) + noise).clamp(-1.0, 1.0)
        return {"logit": output["logit"], "action": action} if self._keep_logit else {"action": action}
