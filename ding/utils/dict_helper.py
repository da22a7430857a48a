"""Merge, flatten, restructure and rename dicts."""

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from ding.utils.errors import InvalidArgumentError, MissingKeyError, UnknownKeyError
from ding.utils.nested import dotted, map_nested


def convert_easy_dict_to_dict(easy_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain dict; every ``EasyDict`` inside, also in lists and tuples, becomes a plain dict too."""
    entries: dict[str, Any] = map_nested(lambda value: value, easy_dict)
    return entries


def deep_merge_dicts(original: Mapping[str, Any] | None, new_dict: Mapping[str, Any] | None) -> Any:
    """Return ``original`` merged with ``new_dict``: dicts are merged recursively, anything else is replaced.

    Both arguments are left unchanged; ``None`` counts as empty; the result has the type of ``original``.
    """
    result: Any = copy.deepcopy(original) if original is not None else {}
    if new_dict:
        _update_deeply(result, new_dict)
    return result


def _update_deeply(target: MutableMapping[str, Any], source: Mapping[str, Any]) -> None:
    for key, value in source.items():
        old = target.get(key)
        if isinstance(old, MutableMapping) and isinstance(value, Mapping):
            _update_deeply(old, value)
        else:
            target[key] = copy.deepcopy(value)


def deep_update(
    original: dict[str, Any],
    new_dict: Mapping[str, Any],
    new_keys_allowed: bool = False,
    whitelist: Sequence[str] | None = None,
    override_all_if_type_changes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Update ``original`` in place, recursively, and return it.

    Args:
        new_keys_allowed: Allow keys missing from ``original``, at every depth.
        whitelist: top-level keys below which new keys are allowed.
        override_all_if_type_changes: Top-level keys whose dict is replaced entirely when its ``type`` changes.

    Raises:
        UnknownKeyError: A new key is not allowed.
    """
    whitelist = whitelist or []
    override_all_if_type_changes = override_all_if_type_changes or []
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise UnknownKeyError(f"unknown key {key!r}; known are {sorted(map(str, original))}")
        old: Any = original.get(key)
        merge = isinstance(old, dict) and isinstance(value, Mapping)
        if merge and key in override_all_if_type_changes:
            merge = "type" not in value or value["type"] == old.get("type")
        if merge:
            deep_update(old, value, new_keys_allowed or key in whitelist)
        else:
            original[key] = value
    return original


def lists_to_dicts(data: Sequence[Any], recursive: bool = False) -> Any:
    """``[{k: v0}, {k: v1}]`` -> ``{k: [v0, v1]}``, with the keys of the first element.

    A list of namedtuples becomes one namedtuple of tuples. ``recursive`` also converts values that are dicts (one level
    down, except under ``prev_state``).

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


def dicts_to_lists(data: Mapping[Any, Sequence[Any]]) -> list[dict[Any, Any]]:
    """``{k: [v0, v1]}`` -> ``[{k: v0}, {k: v1}]``; as long as the shortest value."""
    return [dict(zip(data.keys(), values)) for values in zip(*data.values())]


def flatten_dict(data: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """``{'a': {'b': 1}}`` -> ``{'a/b': 1}``. An empty inner dict disappears."""
    return dotted(data, delimiter)


def make_key_as_identifier(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy whose keys are Python identifiers: other characters become ``_``, which also precedes a leading
    digit.
    """

    def clean(key: str) -> str:
        key = re.sub(r"\W", "_", key)
        return f"_{key}" if not key or key[0].isdigit() else key

    return {clean(key): value for key, value in data.items()}


def remove_illegal_item(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without entries whose value is a string (strings have no array form)."""
    return {key: value for key, value in data.items() if not isinstance(value, str)}


def default_get(
    data: Mapping[str, Any],
    name: str,
    default_value: object = None,
    default_fn: Callable[[], Any] | None = None,
    judge_fn: Callable[[Any], bool] | None = None,
) -> Any:
    """Return ``data[name]``, or ``default_fn()``, or ``default_value``.

    Raises:
        MissingKeyError: The name is missing and no default is given.
        InvalidArgumentError: ``judge_fn`` rejects the default; existing values are not judged.
    """
    if name in data:
        return data[name]
    if default_fn is None and default_value is None:
        raise MissingKeyError(f"{name!r} is missing and has no default")
    value = default_fn() if default_fn is not None else default_value
    if judge_fn is not None and not judge_fn(value):
        raise InvalidArgumentError(f"the default of {name!r} is not acceptable: {value!r}")
    return value
