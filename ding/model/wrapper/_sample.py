"""Wrappers that choose discrete and continuous actions. Nothing here changes what the model or the observation gave.

Shapes: B rows, N actions; ``...`` may hold further axes such as agents. A mask is 0 where an action is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from ding.model.wrapper._base import IModelWrapper, as_tensor, output_dict
from ding.rl_utils.exploration import create_noise_generator
from ding.torch_utils.math_helper import usable_mask
from ding.utils import one_time_warning
from ding.utils.nested import map_nested

Masks = list[torch.Tensor | None]
Eps = float | Mapping[int, float]
# Rows of what a network gives, and what is chosen from them.
Rows = TypeVar("Rows", torch.Tensor, np.ndarray)
Exploit = Callable[[Any, torch.Tensor | None], Any]
Range = Mapping[str, float]
_UNIT_RANGE: Range = {"min": -1, "max": 1}


def split_heads(output: Mapping[str, Any]) -> tuple[list[torch.Tensor], Masks, bool]:
    """Return the logits and masks of ``output`` per head, and whether the model has one head only (its logit is no
    list).

    Logits are arrays where those of the model are, and there is no mask.

    Raises:
        KeyError: the output has no ``logit``.
        TypeError: the logit is neither a tensor nor a list of tensors.
        ValueError: the number of masks is not that of the heads.
    """
    if "logit" not in output:
        raise KeyError(f"sampling an action needs 'logit' in the output of the model, got {sorted(output)}")
    logit, mask = output["logit"], output.get("action_mask")
    single = isinstance(logit, (torch.Tensor, np.ndarray))
    if not single and not isinstance(logit, list | tuple):
        raise TypeError(f"'logit' must be a tensor or a list of tensors, got {type(logit).__name__}")
    logits = [logit] if single else list(logit)
    if mask is None:
        return logits, [None] * len(logits), single
    logits, mask = map_nested(as_tensor, logits), map_nested(as_tensor, mask)
    masks: Masks = [mask] if isinstance(mask, torch.Tensor) else list(mask)
    if len(masks) != len(logits):
        raise ValueError(f"'action_mask' has {len(masks)} entries for {len(logits)} heads")
    for head, item in enumerate(masks):
        if item is not None and not (item != 0).any(dim=-1).all():
            one_time_warning("an 'action_mask' forbids every action of a row: it is taken as one that allows all")
            masks[head] = usable_mask(item)
    return logits, masks, single


def mask_logits(logit: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """``logit`` with minus infinity where ``mask`` is 0; ``logit`` itself without a mask."""
    return logit if mask is None else logit.masked_fill(mask == 0, float("-inf"))


def per_head(output: Mapping[str, Any], choose: Exploit) -> object:
    """What ``choose`` makes of the logit and the mask of each head; without a list around it for a single one."""
    if type(output.get("logit")) is np.ndarray and "action_mask" not in output:
        return choose(output["logit"], None)
    logits, masks, single = split_heads(output)
    actions = [choose(logit, mask) for logit, mask in zip(logits, masks)]
    return actions[0] if single else actions


def greedy_action(logit: Rows, mask: torch.Tensor | None) -> Rows:
    """Return the best allowed action of each row: int64 ``[...]`` from ``[..., N]``."""
    if isinstance(logit, np.ndarray):
        return np.asarray(logit.argmax(-1))
    return (logit if mask is None else mask_logits(logit, mask)).argmax(dim=-1)


def sample_weights(weight: torch.Tensor) -> torch.Tensor:
    """One index per row, with chances in proportion to ``weight`` ``[..., N]``: int64 ``[...]``."""
    flat = torch.multinomial(weight.reshape(-1, weight.shape[-1]), 1)
    return flat.reshape(weight.shape[:-1])


def softmax_action(logit: Rows, mask: torch.Tensor | None, alpha: float | None = None) -> Rows:
    """One allowed action per row, drawn from ``softmax(logit / alpha)``."""
    scaled = logit if alpha is None else logit / alpha
    if isinstance(scaled, np.ndarray):
        # As torch.multinomial draws: the largest of the chances, each divided by an exponential number.
        waits = torch.empty(scaled.shape).exponential_().numpy()
        weight = np.exp(scaled - scaled.max(-1, keepdims=True))
        return np.asarray((weight / waits).argmax(-1))
    return sample_weights(mask_logits(scaled, mask).softmax(dim=-1))


def random_action(logit: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """One action per row, uniform or with the chances that ``mask`` gives."""
    if mask is None:
        return torch.as_tensor(_random_numbers(logit.shape[:-1], logit.shape[-1]), device=logit.device)
    return sample_weights(mask.to(device=logit.device, dtype=torch.float32).expand(logit.shape))


def _random_numbers(shape: int | Sequence[int], count: int) -> np.ndarray:
    """Uniform numbers below ``count``, int64 ``shape``, of numpy's global generator.

    To draw them, and where to explore, by torch's generator takes a tenth of a vector step of 8 CartPole environments.
    """
    return (np.random.random_sample(shape) * count).astype(np.int64)


class ArgmaxSampleWrapper(IModelWrapper):
    """``argmax_sample``: adds ``action``, the best allowed one: int64 ``[B]``, or a list of such for several heads."""

    takes_arrays = True

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and choose."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        output["action"] = per_head(output, greedy_action)
        return output


class MultinomialSampleWrapper(IModelWrapper):
    """``multinomial_sample``: adds ``action``, drawn from ``softmax(logit / alpha)`` of the allowed ones."""

    takes_arrays = True

    def forward(self, *args: Any, alpha: float | None = None, **kwargs: Any) -> dict[str, Any]:
        """Run the model and draw. ``alpha`` is a temperature; 1 unless given."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        output["action"] = per_head(output, partial(softmax_action, alpha=alpha))
        return output


class EpsGreedySampleWrapper(IModelWrapper):
    """``eps_greedy_sample``: adds ``action``, the best allowed one, or with chance ``eps`` a random allowed one.

    Whether to explore is drawn for every row and head by itself.

    Arguments:
        reference_numerics: draw once per head for all rows together, as DI-engine does.
    """

    takes_arrays = True

    def __init__(self, model: nn.Module | IModelWrapper, reference_numerics: bool = False) -> None:
        super().__init__(model)
        self._reference_numerics = reference_numerics

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and choose.

        Arguments:
            eps: the chance to explore; or ``{row: eps}``, a chance per row (then only the first head is used, and
                what follows the row axis, such as agents, explores together and comes before it in the action).

        Raises:
            KeyError: ``eps`` is missing, or misses a row.
        """
        if "eps" not in kwargs:
            raise KeyError(f"{type(self).__name__}.forward needs the keyword 'eps', got {sorted(kwargs)}")
        eps: Eps = kwargs.pop("eps")
        exploit = self._exploit(kwargs)
        if isinstance(eps, Mapping):
            output = self._tensors(args, kwargs)
            logits, masks, _ = split_heads(output)
            return self._output(output, _choose_per_row(logits[0], masks[0], eps, exploit))
        if self._reference_numerics:
            output = self._tensors(args, kwargs)
            return self._output(output, per_head(output, partial(_choose_together, eps=eps, exploit=exploit)))
        output = output_dict(self._model.forward(*args, **kwargs), self)
        return self._output(output, per_head(output, partial(_choose, eps=eps, exploit=exploit)))

    def _exploit(self, kwargs: dict[str, Any]) -> Exploit:
        """What to do when not exploring; takes its own arguments out of ``kwargs``."""
        return greedy_action

    def _output(self, output: dict[str, Any], action: Any) -> dict[str, Any]:
        output["action"] = action
        return output


class EpsGreedyMultinomialSampleWrapper(EpsGreedySampleWrapper):
    """``eps_greedy_multinomial_sample``: ``eps_greedy_sample`` with a draw from ``softmax(logit / alpha)`` for the
    best action.

    ``forward`` takes the keyword ``alpha`` too; 1 unless given.
    """

    takes_arrays = True

    def _exploit(self, kwargs: dict[str, Any]) -> Exploit:
        return partial(softmax_action, alpha=kwargs.pop("alpha", None))


def _choose(logit: Rows, mask: torch.Tensor | None, eps: float, exploit: Exploit) -> Rows:
    rows = logit.shape[:-1]
    explore = np.random.random_sample(rows) < eps
    if isinstance(logit, np.ndarray):
        return np.where(explore, _random_numbers(rows, logit.shape[-1]), exploit(logit, None))
    if mask is None and logit.is_cpu:  # In numpy, which for a few rows takes a third of the time.
        random = _random_numbers(rows, logit.shape[-1])
        return torch.from_numpy(np.where(explore, random, exploit(logit, None).numpy()))
    return torch.where(torch.as_tensor(explore, device=logit.device), random_action(logit, mask), exploit(logit, mask))


def _choose_together(logit: torch.Tensor, mask: torch.Tensor | None, eps: float, exploit: Exploit) -> torch.Tensor:
    action: torch.Tensor = random_action(logit, mask) if torch.rand(()).item() <= eps else exploit(logit, mask)
    return action


def _choose_per_row(
    logit: torch.Tensor, mask: torch.Tensor | None, eps: Mapping[int, float], exploit: Exploit
) -> torch.Tensor:
    rows = logit.shape[0]
    missing = [row for row in range(rows) if row not in eps]
    if missing:
        raise KeyError(f"'eps' has no entry for row(s) {missing} of a batch of {rows}")
    explores = np.random.random_sample(rows) < [eps[row] for row in range(rows)]
    explore = torch.as_tensor(explores, device=logit.device).reshape(rows, *[1] * (logit.dim() - 2))
    return torch.where(explore, random_action(logit, mask), exploit(logit, mask)).movedim(0, -1)


class CombinationArgmaxSampleWrapper(IModelWrapper):
    """``combination_argmax_sample``: adds ``action``, the best ``shot_number`` distinct ones, ``[B, shot_number]``."""

    def forward(self, shot_number: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model with the other arguments and choose."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        scores = _shot_scores(output, shot_number)
        return {**output, "action": scores.topk(shot_number, dim=-1).indices}


class CombinationMultinomialSampleWrapper(IModelWrapper):
    """``combination_multinomial_sample``: as ``combination_argmax_sample``, drawing from ``softmax(logit)`` without
    replacement.
    """

    def forward(self, shot_number: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model with the other arguments and draw."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        weight = _shot_scores(output, shot_number).softmax(dim=-1)
        return {**output, "action": torch.multinomial(weight, shot_number, replacement=False)}


def _shot_scores(output: Mapping[str, Any], shot_number: int) -> torch.Tensor:
    """Return the masked logits ``[B, N]`` of the first head, after a check that ``shot_number`` actions are allowed."""
    logits, masks, _ = split_heads(output)
    logit, mask = logits[0], masks[0]
    allowed = logit.shape[-1] if mask is None else int((mask != 0).sum(dim=-1).min())
    if not 0 < shot_number <= allowed:
        raise ValueError(f"shot_number must be in [1, {allowed}], the number of allowed actions, got {shot_number}")
    return mask_logits(logit, mask)


class DeterministicSampleWrapper(IModelWrapper):
    """``deterministic_sample``: adds ``action``, the mean ``logit['mu']``."""

    takes_arrays = True

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and take the mean."""
        output = self._tensors(args, kwargs)
        output["action"] = output["logit"]["mu"]
        return output


def normal_sample(parameters: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return a sample of the normal distribution with ``mu`` and ``sigma``, without gradient."""
    with torch.no_grad():
        return torch.normal(parameters["mu"], parameters["sigma"])


class ReparamSampleWrapper(IModelWrapper):
    """``reparam_sample``: adds ``action``, a sample of the normal distribution with ``logit['mu']`` and
    ``logit['sigma']``.
    """

    takes_arrays = True

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and draw; the sample has no gradient."""
        output = self._tensors(args, kwargs)
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

    takes_arrays = True

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
        output = self._tensors(args, kwargs)
        key = "action" if "action" in output else "action_args"
        if key in output:
            output[key] = self._noisy(output[key])
        return output

    def _noisy(
        self, action: torch.Tensor | Mapping[str, torch.Tensor] | list[torch.Tensor]
    ) -> torch.Tensor | dict[str, torch.Tensor] | list[torch.Tensor]:
        if isinstance(action, Mapping):
            return {**action, "action_args": self.add_noise(action["action_args"])}
        if isinstance(action, list | tuple):
            return [self.add_noise(item) for item in action]
        return self.add_noise(action)

    @property
    def kept(self) -> torch.Tensor | None:
        """The state of the noise."""
        return self.noise_generator.state

    @kept.setter
    def kept(self, state: Any) -> None:
        self.noise_generator.state = state

    def add_noise(self, action: torch.Tensor) -> torch.Tensor:
        """``action`` ``[B, N]`` with noise, clamped as configured; a new tensor."""
        noise = _within(self.noise_range, self.noise_generator(action.shape, action.device))
        return _within(self.action_range, action + noise)


def _within(limits: Range | None, values: torch.Tensor) -> torch.Tensor:
    return values if limits is None else values.clamp(limits["min"], limits["max"])
