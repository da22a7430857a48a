"""Samplers that convert a policy's output to an action.

A distribution's parameters are a mapping (or an object with attributes) with ``mu`` and ``sigma``; a hybrid output has
``action_type`` (logits) and ``action_args`` (parameters of a distribution).
"""

from collections.abc import Mapping
from typing import Any

import torch
from easydict import EasyDict
from torch.distributions import Categorical, Independent, Normal


def _part(output: object, name: str) -> Any:
    return output[name] if isinstance(output, Mapping) else getattr(output, name)


def _reparameterized(output: object) -> torch.Tensor:
    return Independent(Normal(_part(output, "mu"), _part(output, "sigma")), 1).rsample()


class ArgmaxSampler:
    """Map logits ``[*S, N]`` to the most likely class, int64 ``[*S]``."""

    def __call__(self, logit: torch.Tensor) -> torch.Tensor:
        return logit.argmax(dim=-1)


class MultinomialSampler:
    """Map logits ``[*S, N]`` to a sampled class, int64 ``[*S]``."""

    def __call__(self, logit: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = Categorical(logits=logit).sample()
        return output


class MuSampler:
    """Return the mean of a distribution, ``[*S, D]``."""

    def __call__(self, logit: object) -> torch.Tensor:
        output: torch.Tensor = _part(logit, "mu")
        return output


class ReparameterizationSampler:
    """Return a normal sample ``[*S, D]`` with gradients to ``mu`` and ``sigma``."""

    def __call__(self, logit: object) -> torch.Tensor:
        return _reparameterized(logit)


class HybridStochasticSampler:
    """Sample ``action_type`` from its logits and ``action_args`` from their normal distribution."""

    def __call__(self, logit: object) -> EasyDict:
        return EasyDict(
            action_type=Categorical(logits=_part(logit, "action_type")).sample(),
            action_args=_reparameterized(_part(logit, "action_args")),
        )


class HybridDeterminsticSampler:
    """Return the most likely ``action_type`` and the mean of ``action_args`` (the misspelt class name is public)."""

    def __call__(self, logit: object) -> EasyDict:
        return EasyDict(
            action_type=_part(logit, "action_type").argmax(dim=-1),
            action_args=_part(_part(logit, "action_args"), "mu"),
        )
