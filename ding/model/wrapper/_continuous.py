"""Wrappers that choose continuous actions: the mean, a sample, or a noisy one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ding.model.wrapper._base import IModelWrapper, output_dict
from ding.rl_utils.exploration import create_noise_generator

Range = Mapping[str, float]
_UNIT_RANGE: Range = {"min": -1, "max": 1}


class DeterministicSampleWrapper(IModelWrapper):
    """``deterministic_sample``: adds ``action``, the mean ``logit['mu']``."""

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and take the mean."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        output["action"] = output["logit"]["mu"]
        return output


def normal_sample(parameters: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """A sample of the normal distribution with ``mu`` and ``sigma``, without gradient."""
    with torch.no_grad():
        return torch.normal(parameters["mu"], parameters["sigma"])


class ReparamSampleWrapper(IModelWrapper):
    """``reparam_sample``: adds ``action``, a sample of the normal distribution with ``logit['mu']`` and
    ``logit['sigma']``.
    """

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and draw; the sample has no gradient."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        output["action"] = normal_sample(output["logit"])
        return output


class ActionNoiseWrapper(IModelWrapper):
    """``action_noise``: adds noise to ``action`` (or ``action_args``) of the output; of a hybrid action to its
    ``action_args``. An output with neither, such as that of a critic, is passed through.

    Arguments:
        noise_type: ``gauss`` or ``ou``.
        noise_kwargs: of the noise, such as ``mu`` and ``sigma``.
        noise_range: ``{'min', 'max'}`` that the noise is clamped to, or None.
        action_range: ``{'min', 'max'}`` that the noisy action is clamped to, or None.
    """

    def __init__(
        self,
        model: nn.Module | IModelWrapper,
        noise_type: str = "gauss",
        noise_kwargs: Mapping[str, Any] | None = None,
        noise_range: Range | None = None,
        action_range: Range | None = _UNIT_RANGE,
    ) -> None:
        super().__init__(model)
        self.noise_generator = create_noise_generator(noise_type, dict(noise_kwargs or {}))
        self.noise_range = noise_range
        self.action_range = action_range

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and add the noise.

        Arguments:
            sigma: deviation of the noise from this call on; unchanged unless given.
        """
        sigma = kwargs.pop("sigma", None)
        if sigma is not None:
            self.noise_generator.sigma = sigma
        output = output_dict(self._model.forward(*args, **kwargs), self)
        key = "action" if "action" in output else "action_args"
        if key in output:
            output[key] = self._noisy(output[key])
        return output

    def _noisy(self, action: torch.Tensor | Mapping[str, torch.Tensor] | list[torch.Tensor]) -> Any:
        if isinstance(action, Mapping):
            return {**action, "action_args": self.add_noise(action["action_args"])}
        if isinstance(action, list | tuple):
            return [self.add_noise(item) for item in action]
        return self.add_noise(action)

    def add_noise(self, action: torch.Tensor) -> torch.Tensor:
        """``action`` ``[B, N]`` with noise, clamped as configured; a new tensor."""
        noise = _within(self.noise_range, self.noise_generator(action.shape, action.device))
        return _within(self.action_range, action + noise)


def _within(limits: Range | None, values: torch.Tensor) -> torch.Tensor:
    return values if limits is None else values.clamp(limits["min"], limits["max"])
