"""The wrapper that adds noise to continuous actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ding.model.wrapper._base import IModelWrapper, output_dict

_UNIT_RANGE = {"min": -1, "max": 1}


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
        model: Any,
        noise_type: str = "gauss",
        noise_kwargs: Mapping[str, Any] | None = None,
        noise_range: Mapping[str, float] | None = None,
        action_range: Mapping[str, float] | None = _UNIT_RANGE,
    ) -> None:
        super().__init__(model)
        from ding.rl_utils.exploration import create_noise_generator  # here, so that other wrappers do not pay for it

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
            self.noise_generator.sigma = sigma  # type: ignore[attr-defined]
        output = output_dict(self._model.forward(*args, **kwargs), self)
        key = "action" if "action" in output else "action_args"
        if key in output:
            output[key] = self._noisy(output[key])
        return output

    def _noisy(self, action: Any) -> Any:
        if isinstance(action, Mapping):
            return {**action, "action_args": self.add_noise(action["action_args"])}
        if isinstance(action, list | tuple):
            return [self.add_noise(item) for item in action]
        return self.add_noise(action)

    def add_noise(self, action: torch.Tensor) -> torch.Tensor:
        """``action`` ``[B, N]`` with noise, clamped as configured; a new tensor."""
        noise = self.noise_generator(action.shape, action.device)
        if self.noise_range is not None:
            noise = noise.clamp(self.noise_range["min"], self.noise_range["max"])
        action = action + noise
        if self.action_range is not None:
            action = action.clamp(self.action_range["min"], self.action_range["max"])
        return action
