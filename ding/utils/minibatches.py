"""A batch, a dict of columns, cut into minibatches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ding.utils.errors import InvalidArgumentError
from ding.utils.nested import is_ignored_key, rebuilt

# Recurrent states are lists with one entry per sample, whatever the entries are.
STATE_KEYS = ("prev_state", "prev_actor_state", "prev_critic_state")


def split_data_generator(data: Mapping[str, Any], split_size: int, shuffle: bool = True) -> Iterator[dict[str, Any]]:
    """Yield dicts of ``split_size`` rows cut from a dict of columns.

    Values may be tensors or arrays ``[N, ...]``, dicts of such, lists or tuples of tensors that are each ``[N, ...]``,
    lists of N other objects, or None. A short last part starts earlier, so that it overlaps its predecessor and has
    ``split_size`` rows too; data shorter than ``split_size`` is one part.

    Args:
        split_size: rows per part.
        shuffle: draw the order with ``numpy.random.permutation``.

    Raises:
        InvalidArgumentError: ``data`` is no dict, nothing in it has a length, or ``split_size`` is below 1.
    """
    for index in _part_rows(data, split_size, shuffle):
        yield {key: _take(key, value, index) for key, value in data.items()}


def joined_data_parts(data: Mapping[str, Any], split_size: int) -> tuple[dict[str, Any], int]:
    """The shuffled parts of :func:`split_data_generator` one after the other in one dict, and their number."""
    parts = _part_rows(data, split_size, shuffle=True)
    rows = np.concatenate(parts)
    return {key: _take(key, value, rows) for key, value in data.items()}, len(parts)


def _part_rows(data: Mapping[str, Any], split_size: int, shuffle: bool) -> list[np.ndarray]:
    if split_size < 1:
        raise InvalidArgumentError(f"split_size must be at least 1, got {split_size}")
    if not isinstance(data, Mapping):
        raise InvalidArgumentError(f"split_data_generator takes a dict of columns, got a {type(data).__name__}")
    length = num_rows(data)
    if length is None:
        raise InvalidArgumentError(f"split_data_generator: none of the keys {sorted(data)} has a length")
    order = np.random.permutation(length) if shuffle else np.arange(length)
    begins = [max(0, min(start, length - split_size)) for start in range(0, length, split_size)]
    return [order[begin : begin + split_size] for begin in begins]


def num_rows(value: object, key: str = "") -> int | None:
    """Return how many rows a batch has by the first of its columns that has an axis; None where there is none.

    Args:
        value: a column, or a nested dict of columns.
        key: the key of ``value``.
    """
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return int(value.shape[0]) if value.ndim > 0 else None
    if isinstance(value, Mapping):
        return next((n for k, v in value.items() if (n := num_rows(v, k)) is not None), None)
    if isinstance(value, (list, tuple)) and len(value) > 0:
        return num_rows(value[0]) if is_bundle(value, key) else len(value)
    return None


def is_bundle(value: Sequence[object], key: str = "") -> bool:
    """Return whether a list holds columns with N rows each (the parts of observations), and not one entry per row.

    Args:
        value: a list or tuple in a batch.
        key: its key. Recurrent states and what is not collated have an entry per row, whatever the entries are.
    """
    return key not in STATE_KEYS and not is_ignored_key(key) and bool(value) and all(map(_is_column, value))


def _is_column(value: object) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(is_ignored_key(key) or _is_column(part) for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return is_bundle(value)
    return isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim > 0


def _take(key: str, value: object, index: np.ndarray) -> Any:
    if isinstance(value, torch.Tensor):
        return value[torch.from_numpy(index).to(value.device)] if value.ndim > 0 else value
    if isinstance(value, np.ndarray):
        return value[index] if value.ndim > 0 else value
    if isinstance(value, Mapping):
        return {k: _take(k, v, index) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and len(value) > 0:
        if is_bundle(value, key):
            taken = [_take(key, v, index) for v in value]
        else:
            taken = [value[i] for i in index]
        if isinstance(value, tuple):
            # A namedtuple of columns stays one; one of rows would have the wrong number of fields.
            return rebuilt(value, taken) if len(taken) == len(value) else tuple(taken)
        return taken
    return value


def split_fn(data: Any, indices: Sequence[int], start: int, end: int) -> Any:
    """The rows ``indices[start:end]`` of columns: a tensor or array, a dict or list of such, or None (stays None)."""
    if data is None:
        return None
    if isinstance(data, Mapping):
        return {key: split_fn(value, indices, start, end) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [split_fn(value, indices, start, end) for value in data]
    return data[indices[start:end]]


def get_shape0(data: object) -> int:
    """The length of the first axis of the first leaf of a nested dict, list or tuple of arrays.

    Raises:
        TypeError: there is no array in it.
    """
    if isinstance(data, (torch.Tensor, np.ndarray)):
        return int(data.shape[0])
    if isinstance(data, Mapping) and data:
        return get_shape0(next(iter(data.values())))
    if isinstance(data, (list, tuple)) and len(data) > 0:
        return get_shape0(data[0])
    raise TypeError(f"cannot find the batch size of a {type(data).__name__}")
