"""Turning nested containers over: lists of dicts and dicts of lists, merges, flattening, batches cut in pieces."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

# Recurrent states are lists with one entry per sample, whatever the entries are.
_STATE_KEYS = ("prev_state", "prev_actor_state", "prev_critic_state")


def deep_merge_dicts(original: Mapping | None, new_dict: Mapping | None) -> Any:
    """A new dict: ``new_dict`` over ``original``, dict over dict merged recursively, anything else replaced.

    Both are left untouched; ``None`` counts as empty; the result has the type of ``original`` (``EasyDict`` stays one).
    """
    result: Any = copy.deepcopy(original) if original is not None else {}
    if new_dict:
        _update_deeply(result, new_dict)
    return result


def _update_deeply(target: Any, source: Mapping) -> None:
    for key, value in source.items():
        old = target.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            _update_deeply(old, value)
        else:
            target[key] = copy.deepcopy(value)


def deep_update(
    original: dict,
    new_dict: Mapping,
    new_keys_allowed: bool = False,
    whitelist: Sequence[str] | None = None,
    override_all_if_type_changes: Sequence[str] | None = None,
) -> dict:
    """Update ``original`` in place, recursively, and return it.

    Args:
        new_keys_allowed: allow keys that ``original`` does not have, at every depth.
        whitelist: top-level keys below which new keys are allowed.
        override_all_if_type_changes: top-level keys whose dict is replaced whole when its ``type`` changes.

    Raises:
        KeyError: a key is new and not allowed.
    """
    whitelist = whitelist or []
    override_all_if_type_changes = override_all_if_type_changes or []
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise KeyError(f"unknown key {key!r}; known are {sorted(map(str, original))}")
        old: Any = original.get(key)
        merge = isinstance(old, dict) and isinstance(value, Mapping)
        if merge and key in override_all_if_type_changes:
            merge = "type" not in value or value["type"] == old.get("type")
        if merge:
            deep_update(old, value, new_keys_allowed or key in whitelist)
        else:
            original[key] = value
    return original


def lists_to_dicts(data: Sequence, recursive: bool = False) -> Any:
    """``[{k: v0}, {k: v1}]`` -> ``{k: [v0, v1]}``, with the keys of the first element.

    A list of namedtuples becomes one namedtuple of tuples. ``recursive`` also turns values that are dicts themselves
    (one level down, except under ``prev_state``).

    Raises:
        ValueError: the list is empty.
        TypeError: the elements are neither dicts nor namedtuples.
    """
    if len(data) == 0:
        raise ValueError("lists_to_dicts needs at least one element")
    first = data[0]
    if isinstance(first, Mapping):
        result: dict[Any, Any] = {}
        for key in first:
            values = [item[key] for item in data]
            nested = recursive and isinstance(values[0], Mapping) and key != "prev_state"
            result[key] = lists_to_dicts(values) if nested else values
        return result
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[tuple(values) for values in zip(*data)])
    raise TypeError(f"lists_to_dicts takes dicts or namedtuples, the first element is a {type(first).__name__}")


def dicts_to_lists(data: Mapping[Any, Sequence]) -> list[dict]:
    """``{k: [v0, v1]}`` -> ``[{k: v0}, {k: v1}]``; as long as the shortest value."""
    return [dict(zip(data.keys(), values)) for values in zip(*data.values())]


def list_split(data: Sequence, step: int) -> tuple[list, Any]:
    """Cut into pieces of ``step``: (the full pieces, the shorter rest or None)."""
    if step < 1:
        raise ValueError(f"step must be at least 1, got {step}")
    full = len(data) // step * step
    pieces = [data[i : i + step] for i in range(0, full, step)]
    return pieces, (data[full:] if full < len(data) else None)


def squeeze(data: Any) -> Any:
    """A tuple, list or dict of one element -> that element; longer lists and tuples -> tuple; else unchanged."""
    if isinstance(data, (tuple, list)):
        return data[0] if len(data) == 1 else tuple(data)
    if isinstance(data, dict) and len(data) == 1:
        return next(iter(data.values()))
    return data


def flatten_dict(data: Mapping, delimiter: str = "/") -> dict[str, Any]:
    """``{'a': {'b': 1}}`` -> ``{'a/b': 1}``. An empty inner dict disappears."""
    result: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            for inner_key, inner_value in flatten_dict(value, delimiter).items():
                result[f"{key}{delimiter}{inner_key}"] = inner_value
        else:
            result[key] = value
    return result


def get_shape0(data: Any) -> int:
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
    raise TypeError(f"cannot tell the batch size of a {type(data).__name__}")


def split_data_generator(data: Mapping[str, Any], split_size: int, shuffle: bool = True) -> Iterator[dict[str, Any]]:
    """Yield dicts of ``split_size`` rows cut from a dict of columns.

    Values may be tensors or arrays ``[N, ...]``, dicts of such, lists or tuples of tensors that are each ``[N, ...]``,
    lists of N other objects, or None. A short last piece starts earlier, so that it overlaps its predecessor and has
    ``split_size`` rows too; data shorter than ``split_size`` is one piece.

    Args:
        split_size: rows per piece.
        shuffle: draw the order with ``numpy.random.permutation``.

    Raises:
        ValueError: nothing in ``data`` has a length, or ``split_size`` is below 1.
    """
    if split_size < 1:
        raise ValueError(f"split_size must be at least 1, got {split_size}")
    length = next((n for key, value in data.items() if (n := _rows_of(key, value)) is not None), None)
    if length is None:
        raise ValueError(f"split_data_generator: none of the keys {sorted(data)} has a length")
    order = np.random.permutation(length) if shuffle else np.arange(length)
    for start in range(0, length, split_size):
        begin = max(0, min(start, length - split_size))
        index = order[begin : begin + split_size]
        yield {key: _take(key, value, index) for key, value in data.items()}


def _rows_of(key: str, value: Any) -> int | None:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return int(value.shape[0]) if value.ndim > 0 else None
    if isinstance(value, Mapping):
        return next((n for k, v in value.items() if (n := _rows_of(k, v)) is not None), None)
    if isinstance(value, (list, tuple)) and len(value) > 0:
        return _rows_of(key, value[0]) if _is_columns(key, value) else len(value)
    return None


def _is_columns(key: str, value: Sequence) -> bool:
    """Whether a list is a bundle of columns (each with N rows) and not a list of N rows."""
    return key not in _STATE_KEYS and all(isinstance(v, (torch.Tensor, np.ndarray)) and v.ndim > 0 for v in value)


def _take(key: str, value: Any, index: np.ndarray) -> Any:
    if isinstance(value, torch.Tensor):
        return value[torch.from_numpy(index).to(value.device)] if value.ndim > 0 else value
    if isinstance(value, np.ndarray):
        return value[index] if value.ndim > 0 else value
    if isinstance(value, Mapping):
        return {k: _take(k, v, index) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and len(value) > 0:
        if _is_columns(key, value):
            taken = [_take(key, v, index) for v in value]
        else:
            taken = [value[i] for i in index]
        if isinstance(value, tuple):
            # A namedtuple of columns stays one; one of rows would have the wrong number of fields.
            named = hasattr(value, "_fields") and len(taken) == len(value)
            return type(value)(*taken) if named else tuple(taken)
        return taken
    return value


def default_get(
    data: Mapping[str, Any],
    name: str,
    default_value: Any = None,
    default_fn: Callable[[], Any] | None = None,
    judge_fn: Callable[[Any], bool] | None = None,
) -> Any:
    """``data[name]``, or ``default_fn()``, or ``default_value``.

    Raises:
        KeyError: the name is missing and neither default is given.
        ValueError: ``judge_fn`` rejects the value.
    """
    if name in data:
        value = data[name]
    elif default_fn is not None:
        value = default_fn()
    elif default_value is not None:
        value = default_value
    else:
        raise KeyError(f"{name!r} is missing and has no default")
    if judge_fn is not None and not judge_fn(value):
        raise ValueError(f"the value of {name!r} is not acceptable: {value!r}")
    return value
