"""Epsilon-greedy wrappers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ding.model.wrapper._base import IModelWrapper, output_dict
from ding.model.wrapper._logits import greedy_action, random_action, softmax_action, split_heads

# A chance that is never taken; to divide by less would overflow.
_LEAST_EPS = 1e-300

Eps = float | Mapping[int, float]
Exploit = Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]


class EpsGreedySampleWrapper(IModelWrapper):
    """``eps_greedy_sample``: adds ``action``, the best allowed one, or with chance ``eps`` a random allowed one.

    Whether to explore is drawn for every row and head by itself: from ``u``, uniform in ``[0, 1)``, where it is below
    ``eps``. Without a mask the same draw tells the random action, ``floor(u / eps * N)``.

    Arguments:
        reference_numerics: draw once per head for all rows together, as the original API does.
    """

    def __init__(self, model: Any, reference_numerics: bool = False) -> None:
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
        output = output_dict(self._model.forward(*args, **kwargs), self)
        logits, masks, single = split_heads(output)
        action: Any
        if isinstance(eps, Mapping):
            action = _choose_per_row(logits[0], masks[0], eps, exploit)
        else:
            choose = _choose_together if self._reference_numerics else _choose
            action = [choose(logit, mask, eps, exploit) for logit, mask in zip(logits, masks)]
            action = action[0] if single else action
        return self._output(output, action)

    def array_forward(self, obs: np.ndarray, **kwargs: Any) -> dict[str, np.ndarray] | None:
        """The same over arrays: the same actions from the same state of torch's generator."""
        eps = kwargs.pop("eps", None)
        if type(self) is not EpsGreedySampleWrapper or self._reference_numerics or type(eps) not in (float, int):
            return None
        output = self._inner_arrays(obs, **kwargs)
        if output is not None:
            output["action"] = _choose_array(output["logit"], eps)
        return output

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

    def _exploit(self, kwargs: dict[str, Any]) -> Exploit:
        return partial(softmax_action, alpha=kwargs.pop("alpha", None))


def _choose(logit: torch.Tensor, mask: torch.Tensor | None, eps: float, exploit: Exploit) -> torch.Tensor:
    best = exploit(logit, mask)
    eps = min(eps, 1.0)
    draw = torch.rand(logit.shape[:-1], dtype=torch.float64, device=logit.device)
    explore = draw < eps
    if mask is not None:
        return torch.where(explore, random_action(logit, mask), best)
    if eps <= 0:
        return best
    num_actions = logit.shape[-1]
    # Given that it is below eps, draw / eps is uniform in [0, 1), but it may be rounded to 1.
    picked = (draw / eps * num_actions).clamp_(max=num_actions - 1).to(torch.int64)
    return torch.where(explore, picked, best)


def _choose_array(logit: np.ndarray, eps: float) -> np.ndarray:
    """``_choose`` for ``logit`` ``[N, actions]``, in float64 too, so that it picks the same."""
    action = logit.argmax(1)
    eps = min(eps, 1.0)
    draw = np.empty(len(logit))
    # What torch.rand does, at half its price.
    torch.from_numpy(draw).uniform_()
    explore = draw < eps
    if np.count_nonzero(explore) and eps > _LEAST_EPS:
        num_actions = logit.shape[1]
        draw /= eps
        draw *= num_actions
        np.minimum(draw, num_actions - 1, out=draw)
        np.copyto(action, draw, "unsafe", explore)
    return action


def _choose_together(logit: torch.Tensor, mask: torch.Tensor | None, eps: float, exploit: Exploit) -> torch.Tensor:
    if torch.rand(()).item() > eps:
        return exploit(logit, mask)
    return random_action(logit, mask)


def _choose_per_row(
    logit: torch.Tensor, mask: torch.Tensor | None, eps: Mapping[int, float], exploit: Exploit
) -> torch.Tensor:
    rows = logit.shape[0]
    missing = [row for row in range(rows) if row not in eps]
    if missing:
        raise KeyError(f"'eps' has no entry for row(s) {missing} of a batch of {rows}")
    chances = torch.tensor([eps[row] for row in range(rows)], device=logit.device)
    explore = torch.rand(rows, device=logit.device) < chances
    explore = explore.reshape(rows, *[1] * (logit.dim() - 2))
    return torch.where(explore, random_action(logit, mask), exploit(logit, mask)).movedim(0, -1)
