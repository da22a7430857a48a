"""Encoding of nested data into what ``torch.load(weights_only=True)`` reads, and back.

Tensors, numbers, texts, bytes, None and their dicts, lists and tuples pass as they are. Arrays travel as marked
tensors and come back as arrays; other mappings (``EasyDict``) come back as dicts, named tuples as tuples, numpy numbers
as numbers.
"""

import io
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import torch

from ding.utils.nested import Tree

_ARRAY = "__ding_ndarray__"
_PLAIN = (str, bytes, bool, int, float, complex, type(None), torch.Size, torch.dtype, torch.device)


def to_plain(data: object, where: str = "data") -> object:
    """Return the encoded form of ``data``. Parts that need no change are not copied.

    Raises:
        TypeError: A value has no such form; the message says where it is.
    """
    if isinstance(data, torch.nn.Parameter):
        return data.detach()
    if type(data) is torch.Tensor or type(data) in _PLAIN:
        return data
    if isinstance(data, np.generic):
        return data.item()
    if isinstance(data, np.ndarray):
        return _array_to_plain(data, where)
    if isinstance(data, Mapping):
        if _ARRAY in data:
            raise TypeError(f"{where} has the key {_ARRAY!r}, which marks encoded arrays")
        items = {key: to_plain(value, f"{where}[{key!r}]") for key, value in data.items()}
        if type(data) in (dict, OrderedDict) and all(items[key] is value for key, value in data.items()):
            return data
        return items
    if isinstance(data, (list, tuple, deque)):
        values = [to_plain(value, f"{where}[{i}]") for i, value in enumerate(data)]
        if type(data) in (list, tuple) and all(new is old for new, old in zip(values, data)):
            return data
        return tuple(values) if isinstance(data, tuple) else values
    if isinstance(data, torch.Tensor):
        return data.detach().as_subclass(torch.Tensor)
    raise TypeError(
        f"{where} is a {type(data).__name__}, which cannot be saved safely; "
        "expected tensors, arrays, numbers, texts, None and dicts, lists or tuples of them"
    )


def _array_to_plain(array: np.ndarray, where: str) -> dict[str, Any]:
    if array.dtype.kind in "US":
        return {_ARRAY: array.tolist(), "dtype": array.dtype.str, "shape": list(array.shape)}
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"{where} is an array of {array.dtype}, which cannot be saved safely; expected numbers or texts"
        )
    # Stored as bytes, because torch has no equivalent of some dtypes (uint32, big endian).
    raw = torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8) if array.size else None
    return {_ARRAY: raw, "dtype": array.dtype.str, "shape": list(array.shape)}


def from_plain(data: object) -> Tree:
    """Return the inverse of ``to_plain``. Parts that need no change are not copied."""
    if isinstance(data, dict):
        if _ARRAY in data:
            return _array_from_plain(data)
        items = {key: from_plain(value) for key, value in data.items()}
        return data if all(items[key] is value for key, value in data.items()) else items
    if isinstance(data, (list, tuple)) and type(data) in (list, tuple):
        values = [from_plain(value) for value in data]
        return data if all(new is old for new, old in zip(values, data)) else type(data)(values)
    return data


def _array_from_plain(data: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(data["dtype"])
    if dtype.kind not in "biufcUS":
        raise ValueError(f"a saved array has the dtype {dtype}, expected numbers or texts")
    raw, shape = data[_ARRAY], tuple(data["shape"])
    if raw is None:
        return np.empty(shape, dtype=dtype)
    if isinstance(raw, torch.Tensor):
        return np.frombuffer(bytearray(raw.numpy().tobytes()), dtype=dtype).reshape(shape)
    return np.array(raw, dtype=dtype).reshape(shape)


def dump(data: object, file: BinaryIO) -> None:
    """Write ``data`` to an open binary file. Raises ``TypeError`` like ``to_plain``."""
    torch.save(to_plain(data), file)


def load(file: BinaryIO | str, map_location: str | torch.device = "cpu") -> Tree:
    """Read what ``dump`` wrote, with ``weights_only=True``."""
    return from_plain(torch.load(file, map_location=map_location, weights_only=True))


def dumps(data: object) -> bytes:
    """Return ``dump`` output as bytes."""
    buffer = io.BytesIO()
    dump(data, buffer)
    return buffer.getvalue()


def loads(raw: bytes) -> Tree:
    """Read the output of ``dumps``."""
    return load(io.BytesIO(raw))
