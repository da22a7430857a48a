"""The wrapper of target networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from ding.model.wrapper._base import IModelWrapper

_OPTIONS = {"assign": "freq", "momentum": "theta"}


class TargetNetworkWrapper(IModelWrapper):
    """``target``: a network that follows another one.

    ``assign`` copies the weights at every ``freq``-th call of ``update``; ``momentum`` moves each parameter by the
    share ``theta`` at every call and copies the buffers (statistics of normalisation, noise).

    Arguments:
        update_type: ``assign`` or ``momentum``.
        update_kwargs: ``{'freq': n}``, n positive, or ``{'theta': t}``, t in ``[0, 1]``.

    Raises:
        ValueError: another type, or its option is missing or out of range.
    """

    def __init__(self, model: nn.Module | IModelWrapper, update_type: str, update_kwargs: Mapping[str, float]) -> None:
        super().__init__(model)
        if update_type not in _OPTIONS:
            raise ValueError(f"update_type must be one of {sorted(_OPTIONS)}, got {update_type!r}")
        option = _OPTIONS[update_type]
        if option not in update_kwargs:
            raise ValueError(f"update_kwargs of {update_type!r} needs {option!r}, got {dict(update_kwargs)}")
        value = update_kwargs[option]
        if update_type == "assign" and value < 1:
            raise ValueError(f"update_kwargs['freq'] must be positive, got {value}")
        if update_type == "momentum" and not 0 <= value <= 1:
            raise ValueError(f"update_kwargs['theta'] must be in [0, 1], got {value}")
        self._freq = value if update_type == "assign" else None
        self._average = None if update_type == "assign" else get_ema_multi_avg_fn(1 - value)
        self._update_count = 0

    def reset(self, *args: Any, target_update_count: int | None = None, **kwargs: Any) -> None:
        """Set the counter of ``assign``, if given, and reset what is wrapped."""
        if target_update_count is not None:
            self._update_count = target_update_count
        if hasattr(self._model, "reset"):
            self._model.reset(*args, **kwargs)

    def update(self, state_dict: Mapping[str, torch.Tensor] | nn.Module | IModelWrapper, direct: bool = False) -> None:
        """Follow another network.

        Arguments:
            state_dict: the state of the network; or the network itself, whose state is read when it is needed.
            direct: copy it now and start counting anew.

        Raises:
            RuntimeError: the names or shapes are not those of this network.
        """
        self._update_count = 0 if direct else self._update_count + 1
        if self._freq is not None and not direct and self._update_count % self._freq:
            return
        state = state_dict if isinstance(state_dict, Mapping) else state_dict.state_dict()
        if self._average is None or direct:
            self._model.load_state_dict(state, strict=True)
        else:
            self._blend(state, self._average)

    @torch.no_grad()
    def _blend(self, state: Mapping[str, torch.Tensor], average: Callable[..., None]) -> None:
        own: dict[str, torch.Tensor] = self._model.state_dict()
        if own.keys() != state.keys() or any(value.shape != state[name].shape for name, value in own.items()):
            self._model.load_state_dict(state, strict=True)  # raises the error that names what does not fit
        # A module that is registered twice has two names in the state, and one among the parameters.
        moved = {name: own[name] for name, _ in self._model.named_parameters()}
        sources = [state[name].to(value.device) for name, value in moved.items()]
        average(list(moved.values()), sources, self._update_count)
        for name, buffer in self._model.named_buffers():
            if name in state:
                buffer.copy_(state[name])
