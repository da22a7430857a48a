"""The wrapper of target networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from ding.model.wrapper._base import IModelWrapper
from ding.torch_utils.network.array_layers import Watch

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

    def __init__(self, model: Any, update_type: str, update_kwargs: Mapping[str, Any]) -> None:
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
        self._update_type = update_type
        self._update_kwargs = dict(update_kwargs)
        self._update_count = 0
        self._cached: _Cached | None = None

    def reset(self, *args: Any, target_update_count: int | None = None, **kwargs: Any) -> None:
        """Set the counter of ``assign``, if given, and reset what is wrapped."""
        if target_update_count is not None:
            self._update_count = target_update_count
        if hasattr(self._model, "reset"):
            self._model.reset(*args, **kwargs)

    def update(self, state_dict: Mapping[str, torch.Tensor], direct: bool = False) -> None:
        """Follow the network whose state is ``state_dict``.

        Arguments:
            direct: copy it now and start counting anew.

        Raises:
            RuntimeError: the names or shapes are not those of this network.
        """
        if direct:
            self._model.load_state_dict(state_dict, strict=True)
            self._update_count = 0
        elif self._update_type == "assign":
            self._update_count += 1
            if self._update_count % self._update_kwargs["freq"] == 0:
                self._copy(state_dict)
        elif not self._blend_cached(state_dict, self._update_kwargs["theta"]):
            self._blend(state_dict, self._update_kwargs["theta"])

    @torch.no_grad()
    def _copy(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        own = self._layout(state_dict)
        _foreach_copy(list(own.values()), [state_dict[key] for key in own])

    @torch.no_grad()
    def _blend(self, state_dict: Mapping[str, torch.Tensor], theta: float) -> None:
        _Pairs(self._layout(state_dict), state_dict).blend(theta)

    @torch.no_grad()
    def _blend_cached(self, state_dict: Mapping[str, torch.Tensor], theta: float) -> bool:
        """``_blend`` without reading ``state_dict``, where it says by ``module`` whose state it is and that module has
        the layout of the own one. False, with nothing done, elsewhere.
        """
        source = getattr(state_dict, "module", None)
        if not isinstance(source, nn.Module):
            return False
        cached = self._cached
        if cached is None or cached.source is not source or not cached.watch.unchanged():
            self._cached = cached = _Cached.make(self._module, source)
            if cached is None:
                return False
        cached.pairs.blend(theta)
        return True

    @property
    def _module(self) -> nn.Module:
        module = self._model
        while isinstance(module, IModelWrapper):
            module = module._model
        return module

    def _layout(self, state_dict: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The own parameters and persistent buffers by name, checked to fit ``state_dict``."""
        module = self._module
        own: dict[str, torch.Tensor] = {}
        _collect(module, "", own)
        if not _same_layout(own, state_dict):
            own = dict(module.state_dict(keep_vars=True))  # hooks may add names of their own
            if not _same_layout(own, state_dict):
                module.load_state_dict(state_dict, strict=True)
                raise RuntimeError(f"the state of {type(module).__name__} has entries that are not tensors")
        return own


class _Pairs:
    """What moves towards what, and what becomes a copy of what."""

    def __init__(self, own: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> None:
        self.parameters: list[torch.Tensor] = []
        self.sources: list[torch.Tensor] = []
        self.buffers: list[torch.Tensor] = []
        self.buffer_sources: list[torch.Tensor] = []
        seen: set[int] = set()  # a module that is registered twice has two names and one storage
        for key, value in own.items():
            if not isinstance(value, nn.Parameter):
                self.buffers.append(value)
                self.buffer_sources.append(other[key])
            elif id(value) not in seen:
                seen.add(id(value))
                self.parameters.append(value)
                self.sources.append(other[key])

    def blend(self, theta: float) -> None:
        """Move the parameters by the share ``theta`` and copy the buffers."""
        if self.parameters:
            torch._foreach_lerp_(
                self.parameters, [_on_device_of(*pair) for pair in zip(self.parameters, self.sources)], theta
            )
        if self.buffers:
            _foreach_copy(self.buffers, self.buffer_sources)


class _Cached(NamedTuple):
    """The pairs of two modules, valid while ``watch`` says so."""

    source: nn.Module
    watch: Watch
    pairs: _Pairs

    @classmethod
    def make(cls, target: nn.Module, source: nn.Module) -> _Cached | None:
        """``None`` when the two do not have the same layout, or hooks on their way."""
        own: dict[str, torch.Tensor] = {}
        other: dict[str, torch.Tensor] = {}
        _collect(target, "", own)
        _collect(source, "", other)
        watch = Watch()
        for module in (*target.modules(), *source.modules()):
            if module._state_dict_hooks or module._state_dict_pre_hooks or _has_own_state(module):
                return None
            watch.add(module)
        return cls(source, watch, _Pairs(own, other)) if _same_layout(own, other) else None


def _has_own_state(module: nn.Module) -> bool:
    cls = type(module)
    return (
        cls._save_to_state_dict is not nn.Module._save_to_state_dict
        or cls.state_dict is not nn.Module.state_dict
        or cls.get_extra_state is not nn.Module.get_extra_state
    )


def _collect(module: nn.Module, prefix: str, into: dict[str, torch.Tensor]) -> None:
    """``state_dict(keep_vars=True)`` at a third of its cost; ``update`` runs at every learn step."""
    state = module.__dict__
    for name, value in state["_parameters"].items():
        if value is not None:
            into[prefix + name] = value
    skipped = state["_non_persistent_buffers_set"]
    for name, value in state["_buffers"].items():
        if value is not None and name not in skipped:
            into[prefix + name] = value
    for name, child in state["_modules"].items():
        if child is not None:
            _collect(child, f"{prefix}{name}.", into)


def _same_layout(own: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both hold tensors of the same names and shapes."""
    if own.keys() != other.keys():
        return False
    for key, value in own.items():
        match = other[key]
        if not isinstance(value, torch.Tensor) or not isinstance(match, torch.Tensor) or value.shape != match.shape:
            return False
    return True


def _on_device_of(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return source if source.device == target.device else source.to(target.device)


def _foreach_copy(targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
    torch._foreach_copy_(targets, [_on_device_of(*pair) for pair in zip(targets, sources)])
