"""Wrappers that choose an action: the best, or a sample of the policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ding.model.wrapper._base import IModelWrapper, output_dict
from ding.model.wrapper._logits import greedy_action, mask_logits, softmax_action, split_heads


class ArgmaxSampleWrapper(IModelWrapper):
    """``argmax_sample``: adds ``action``, the best allowed one: int64 ``[B]``, or a list of such for several heads."""

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and choose."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        logits, masks, single = split_heads(output)
        actions = [greedy_action(logit, mask) for logit, mask in zip(logits, masks)]
        output["action"] = actions[0] if single else actions
        return output

    def array_forward(self, obs: np.ndarray, **kwargs: Any) -> dict[str, np.ndarray] | None:
        """The same over arrays."""
        output = self._inner_arrays(obs, **kwargs) if type(self) is ArgmaxSampleWrapper else None
        if output is not None:
            output["action"] = output["logit"].argmax(1)
        return output


class MultinomialSampleWrapper(IModelWrapper):
    """``multinomial_sample``: adds ``action``, drawn from ``softmax(logit / alpha)`` of the allowed ones."""

    def forward(self, *args: Any, alpha: float | None = None, **kwargs: Any) -> dict[str, Any]:
        """Run the model and draw. ``alpha`` is a temperature; 1 unless given."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        logits, masks, single = split_heads(output)
        actions = [softmax_action(logit, mask, alpha) for logit, mask in zip(logits, masks)]
        output["action"] = actions[0] if single else actions
        return output


class DeterministicSampleWrapper(IModelWrapper):
    """``deterministic_sample``: adds ``action``, the mean ``logit['mu']``."""

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and take the mean."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        output["action"] = output["logit"]["mu"]
        return output


def normal_sample(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
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


class CombinationArgmaxSampleWrapper(IModelWrapper):
    """``combination_argmax_sample``: the output is ``action``, the ``shot_number`` best distinct actions ``[B,
    shot_number]``, and ``logit``.
    """

    def forward(self, shot_number: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model with the other arguments and choose."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        logits, masks, _ = split_heads(output)
        _check_shots(shot_number, logits[0], masks[0])
        action = mask_logits(logits[0], masks[0]).topk(shot_number, dim=-1).indices
        return {"action": action, "logit": output["logit"]}


class CombinationMultinomialSampleWrapper(IModelWrapper):
    """``combination_multinomial_sample``: as ``combination_argmax_sample``, drawing from ``softmax(logit)`` without
    replacement.
    """

    def forward(self, shot_number: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model with the other arguments and draw."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        logits, masks, _ = split_heads(output)
        _check_shots(shot_number, logits[0], masks[0])
        weight = mask_logits(logits[0], masks[0]).softmax(dim=-1)
        return {"action": torch.multinomial(weight, shot_number, replacement=False), "logit": output["logit"]}


def _check_shots(shot_number: int, logit: torch.Tensor, mask: torch.Tensor | None) -> None:
    allowed = logit.shape[-1] if mask is None else int((mask != 0).sum(dim=-1).min())
    if not 0 < shot_number <= allowed:
        raise ValueError(f"shot_number must be in [1, {allowed}], the number of allowed actions, got {shot_number}")
