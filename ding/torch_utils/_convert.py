"""Conversions between tensors, arrays and Python objects; public as ``ding.torch_utils.data_helper``."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ding.torch_utils._tree import is_container, is_namedtuple, is_number, map_container, rebuild_sequence, unsupported


def to_device(item: Any, device: str | torch.device, ignore_keys: Sequence[str] = ()) -> Any:
    """Move every tensor inside ``item`` to ``device``.

    Modules are moved in place, distributions are rebuilt on the device, arrays, numbers, strings and ``None`` pass
    through, containers keep their type (mappings become dicts). Dict entries named in ``ignore_keys`` stay as they are.
    Raises ``TypeError`` for anything else.
    """
    if isinstance(item, torch.Tensor):
        return item.to(device)
    if isinstance(item, Mapping):
        return {k: v if k in ignore_keys else to_device(v, device, ignore_keys) for k, v in item.items()}
    if isinstance(item, nn.Module):
        return item.to(device)
    if item is None or is_number(item) or isinstance(item, (np.ndarray, str)):
        return item
    if isinstance(item, (list, tuple)):
        return rebuild_sequence(item, [to_device(value, device, ignore_keys) for value in item])
    if isinstance(item, torch.distributions.Distribution):
        return _distribution_to(item, device)
    raise unsupported(
        "to_device", item, "a module, tensor, array, number, string, distribution or a container of these"
    )


def _distribution_to(
    distribution: torch.distributions.Distribution, device: str | torch.device
) -> torch.distributions.Distribution:
    moved = copy.copy(distribution)
    for name, value in vars(distribution).items():
        if isinstance(value, torch.Tensor):
            setattr(moved, name, value.to(device))
        elif isinstance(value, torch.distributions.Distribution):
            setattr(moved, name, _distribution_to(value, device))
    return moved


def to_dtype(item: Any, dtype: torch.dtype) -> Any:
    """Cast every tensor inside nested dicts and sequences. Raises ``TypeError`` for other leaves."""
    if isinstance(item, torch.Tensor):
        return item.to(dtype)
    if is_container(item):
        return map_container(item, lambda value: to_dtype(value, dtype))
    raise unsupported("to_dtype", item, "a tensor or a container of tensors")


def to_tensor(
    item: Any,
    dtype: torch.dtype | None = None,
    ignore_keys: Sequence[str] = (),
    transform_scalar: bool = True,
) -> Any:
    """Turn arrays, numbers and lists of numbers into tensors, recursively.

    A float64 array becomes float32 unless ``dtype`` says otherwise; any other array shares its memory with the tensor.
    ``bool``, ``str`` and ``None`` are left alone; a scalar becomes a 0-d tensor unless ``transform_scalar=False``; a
    list or tuple that starts with a number becomes one tensor; an empty list stays empty. Dict entries named in
    ``ignore_keys`` are left out of the conversion and kept. Raises ``TypeError`` for other types.
    """
    if isinstance(item, torch.Tensor):
        return item if dtype is None else item.to(dtype)
    if isinstance(item, np.ndarray):
        return _array_to_tensor(item, dtype)
    if item is None or isinstance(item, (bool, str)):
        return item
    if isinstance(item, Mapping):
        return {
            k: v if k in ignore_keys else to_tensor(v, dtype, ignore_keys, transform_scalar) for k, v in item.items()
        }
    if is_number(item):
        return torch.as_tensor(item, dtype=dtype) if transform_scalar else item
    if isinstance(item, (list, tuple)):
        if item and is_number(item[0]) and not is_namedtuple(item):
            return torch.as_tensor(item, dtype=dtype)
        return rebuild_sequence(item, [to_tensor(value, dtype, ignore_keys, transform_scalar) for value in item])
    raise unsupported("to_tensor", item, "an array, tensor, number, string or a container of these")


def _array_to_tensor(array: np.ndarray, dtype: torch.dtype | None) -> torch.Tensor:
    if array.dtype == np.float64 and dtype is None:
        dtype = torch.float32
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        # torch has no read-only tensors and no negative strides.
        array = array.copy()
    tensor = torch.from_numpy(array)
    return tensor if dtype is None else tensor.to(dtype)


def to_ndarray(item: Any, dtype: Any = None) -> Any:
    """Turn tensors, numbers and lists of numbers into numpy arrays, recursively.

    A CPU tensor shares its memory with the array; tensors on a device or with a graph are detached and copied.
    ``bool``, ``str`` and ``None`` are left alone, an empty list stays empty. Raises ``TypeError`` for other types.
    """
    if isinstance(item, torch.Tensor):
        array = item.detach().cpu().numpy()
        return array if dtype is None else array.astype(dtype)
    if isinstance(item, np.ndarray):
        return item if dtype is None else item.astype(dtype)
    if item is None or isinstance(item, (bool, str)):
        return item
    if isinstance(item, Mapping):
        return map_container(item, lambda value: to_ndarray(value, dtype))
    if is_number(item):
        return np.array(item, dtype=dtype)
    if isinstance(item, (list, tuple)):
        if item and is_number(item[0]) and not is_namedtuple(item):
            return np.array(item, dtype=dtype)
        return map_container(item, lambda value: to_ndarray(value, dtype))
    raise unsupported("to_ndarray", item, "a tensor, array, number, string or a container of these")


def to_list(item: Any) -> Any:
    """Turn tensors and arrays into (nested) lists, recursively; a 0-d tensor becomes a number."""
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    if isinstance(item, (torch.Tensor, np.ndarray, np.generic)):
        return item.tolist()
    if is_container(item):
        return map_container(item, to_list)
    raise unsupported("to_list", item, "a tensor, array, number, string or a container of these")


def tensor_to_list(item: Any) -> Any:
    """Turn tensors into lists, recursively, and leave numbers, strings and ``None`` alone."""
    if item is None or isinstance(item, str) or is_number(item):
        return item
    if isinstance(item, torch.Tensor):
        return item.tolist()
    if is_container(item):
        return map_container(item, tensor_to_list)
    raise unsupported("tensor_to_list", item, "a tensor, number, string or a container of these")


def to_item(data: Any, ignore_error: bool = True) -> Any:
    """Take Python scalars out of one-element tensors and arrays, recursively.

    A dict entry that holds more than one element is dropped when ``ignore_error``; otherwise ``ValueError`` is raised.
    """
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, (torch.Tensor, np.ndarray, np.generic)):
        if data.size != 1 if not isinstance(data, torch.Tensor) else data.numel() != 1:
            raise ValueError(f"to_item expects one element, got shape {tuple(data.shape)}")
        return data.item()
    if isinstance(data, Mapping):
        return _mapping_to_item(data, ignore_error)
    if isinstance(data, (list, tuple)):
        return rebuild_sequence(data, [to_item(value, ignore_error) for value in data])
    raise unsupported("to_item", data, "a tensor, array, number, string or a container of these")


def _mapping_to_item(data: Mapping[Any, Any], ignore_error: bool) -> dict[Any, Any]:
    result = {}
    for key, value in data.items():
        try:
            result[key] = to_item(value, ignore_error)
        except ValueError:
            if not ignore_error:
                raise
    return result
