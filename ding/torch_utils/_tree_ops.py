"""Recursive tensor operations; public as ``ding.torch_utils.data_helper``."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ding.torch_utils._tree import is_container, is_number, map_container, unsupported


def same_shape(data: Sequence[torch.Tensor]) -> bool:
    """Whether all tensors (or arrays) of ``data`` have one shape. Raises ``TypeError`` when one has none."""
    for item in data:
        if not hasattr(item, "shape"):
            raise unsupported("same_shape", item, "objects with a shape")
    return len({tuple(item.shape) for item in data}) <= 1


def unsqueeze(data: Any, dim: int = 0) -> Any:
    """``tensor.unsqueeze(dim)`` for every tensor inside nested dicts and sequences."""
    if isinstance(data, torch.Tensor):
        return data.unsqueeze(dim)
    if is_container(data):
        return map_container(data, lambda value: unsqueeze(value, dim))
    raise unsupported("unsqueeze", data, "a tensor or a container of tensors")


def squeeze(data: Any, dim: int = 0) -> Any:
    """``tensor.squeeze(dim)`` for every tensor inside nested dicts and sequences."""
    if isinstance(data, torch.Tensor):
        return data.squeeze(dim)
    if is_container(data):
        return map_container(data, lambda value: squeeze(value, dim))
    raise unsupported("squeeze", data, "a tensor or a container of tensors")


def zeros_like(h: Any) -> Any:
    """``torch.zeros_like`` for every tensor inside nested dicts and sequences."""
    if isinstance(h, torch.Tensor):
        return torch.zeros_like(h)
    if is_container(h):
        return map_container(h, zeros_like)
    raise unsupported("zeros_like", h, "a tensor or a container of tensors")


def get_tensor_data(data: Any) -> Any:
    """A detached clone of every tensor inside nested dicts and sequences; ``None`` passes through."""
    if isinstance(data, torch.Tensor):
        return data.detach().clone()
    if data is None:
        return None
    if is_container(data):
        return map_container(data, get_tensor_data)
    raise unsupported("get_tensor_data", data, "a tensor, None or a container of these")


def get_null_data(template: Mapping[str, Any], num: int) -> list[dict[str, Any]]:
    """``num`` copies of a transition that mark padding: ``null`` and ``done`` True, every ``reward`` zero.

    ``template['reward']`` is a tensor, an array or a number; the other fields are deep copies.
    """
    result = []
    for _ in range(num):
        null = copy.deepcopy(dict(template))
        null["null"] = True
        null["done"] = True
        reward = null["reward"]
        null["reward"] = 0.0 if is_number(reward) else reward * 0
        result.append(null)
    return result


class LogDict(dict):
    """A dict for log values: a tensor is stored as a number (0-d) or a nested list."""

    @staticmethod
    def _plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, torch.Tensor) else value

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, self._plain(value))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return super().setdefault(key, self._plain(default))

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value


def build_log_buffer() -> LogDict:
    """An empty dict that turns every tensor put into it into a number or a list."""
    return LogDict()
