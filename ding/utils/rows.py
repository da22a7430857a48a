"""Count, take and write rows of nested data.

*Columns* are nested dicts of tensors, arrays and lists with one row per entry; a list holds objects (:func:`take`,
:func:`put`). A *batch* is what a network learns from, in which a list is one of two things: one entry per row, or a
bundle of columns with N rows each, such as the parts of an observation. :func:`is_bundle` is the rule
(:func:`num_rows`, :func:`take_rows`), and :func:`split_data_generator` cuts it into minibatches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import torch

from ding.utils.errors import InvalidArgumentError
from ding.utils.nested import (
    Tree,
    is_ignored_key,
    iter_nested,
    map_leaves,
    map_nested,
    map_together,
    plain_tree,
    rebuilt,
)

# Recurrent states are lists with one entry per sample, whatever the entries are.
STATE_KEYS = ("prev_state", "prev_actor_state", "prev_critic_state")


def take(columns: object, index: slice | np.ndarray) -> Tree:
    """Return rows of columns.

    Args:
        columns: a column, or a nested dict of columns.
        index: A slice, whose rows share memory; or non-negative positions, int64 of any shape ``[*I]``, whose rows are
            copied to ``[*I, *row]`` (of a list: to nested lists).
    """
    return map_leaves(itemgetter(index) if isinstance(index, slice) else _picker(index), columns)


def _picker(index: np.ndarray) -> Callable[[Any], Any]:
    flat: torch.Tensor | None = None

    def picked(column: Any) -> object:
        nonlocal flat
        if isinstance(column, np.ndarray):
            return column.take(index, axis=0)
        if not isinstance(column, torch.Tensor):
            return _entries(column, index.tolist())
        if flat is None:
            flat = torch.from_numpy(index.reshape(-1))
        rows = column.index_select(0, flat.to(column.device))
        return rows if index.ndim == 1 else rows.view(*index.shape, *column.shape[1:])

    return picked


def _entries(column: Sequence[Any], positions: list[Any]) -> list[Any]:
    return [_entries(column, part) if isinstance(part, list) else column[part] for part in positions]


def put(target: object, index: slice | np.ndarray, source: object) -> None:
    """Write the rows of ``source`` to rows of ``target``, columns of the same nesting.

    Args:
        target: A column, or a nested dict of columns.
        index: A slice, or int64 positions ``[I]``.
        source: Columns of I rows; extra fields are ignored.
    """

    def write(column: Any, rows: Any) -> None:
        if isinstance(index, slice) or isinstance(column, np.ndarray):
            column[index] = rows
        elif isinstance(column, torch.Tensor):
            column[torch.from_numpy(index).to(column.device)] = rows
        else:
            for position, row in zip(index.tolist(), rows):
                column[position] = row

    map_together(write, target, source)


def num_rows(value: object, key: str = "") -> int | None:
    """Return the number of rows of a batch, from its first column with an axis; None if there is none.

    Args:
        value: A column, or a nested dict of columns.
        key: Key of ``value``.
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


def take_rows(value: object, index: np.ndarray, key: str = "") -> Tree:
    """Return the rows ``index`` of a batch; values without rows (numbers, 0-d tensors, None) are unchanged.

    Args:
        value: A column, or a nested dict of columns.
        index: int64 ``[I]``.
        key: Key of ``value``.
    """
    if isinstance(value, torch.Tensor):
        return value[torch.from_numpy(index).to(value.device)] if value.ndim > 0 else value
    if isinstance(value, np.ndarray):
        return value[index] if value.ndim > 0 else value
    if isinstance(value, Mapping):
        return {k: take_rows(v, index, k) for k, v in value.items()}
    if not isinstance(value, (list, tuple)) or len(value) == 0:
        return value
    taken = [take_rows(v, index, key) for v in value] if is_bundle(value, key) else [value[i] for i in index]
    # A namedtuple of columns stays one; one of rows would have the wrong number of fields.
    if isinstance(value, tuple):
        return rebuilt(value, taken) if len(taken) == len(value) else tuple(taken)
    return taken


def get_shape0(data: object) -> int:
    """Return the size of the first axis of the first leaf of nested dicts, lists, tuples and trees of ``treetensor``.

    Raises:
        TypeError: The first leaf is not a tensor or array with an axis.
    """
    first = next(iter_nested(data), None)
    if isinstance(first, (torch.Tensor, np.ndarray)) and first.ndim > 0:
        return int(first.shape[0])
    tree = plain_tree(first)
    if tree is not first:
        return get_shape0(tree)
    raise TypeError(
        f"get_shape0 needs a tensor or array with an axis first in a {type(data).__name__}, found a "
        f"{type(first).__name__}"
    )


def split_data_generator(data: Mapping[str, Any], split_size: int, shuffle: bool = True) -> Iterator[dict[str, Any]]:
    """Yield dicts of ``split_size`` rows cut from a dict of columns.

    Values may be tensors or arrays ``[N, ...]``, dicts of such, lists or tuples of tensors that are each ``[N, ...]``,
    lists of N other objects, or None. A short last part starts earlier, so it overlaps its predecessor and also has
    ``split_size`` rows; data shorter than ``split_size`` is one part.

    Args:
        split_size: rows per part.
        shuffle: Whether to shuffle the rows with ``numpy.random.permutation``.

    Raises:
        InvalidArgumentError: ``data`` is not a dict, has no rows, or ``split_size`` is below 1.
    """
    for index in minibatch_rows(data, split_size, shuffle):
        yield {key: take_rows(value, index, key) for key, value in data.items()}


def minibatch_rows(data: Mapping[str, Any], split_size: int, shuffle: bool = True) -> list[np.ndarray]:
    """Return the rows in each dict of :func:`split_data_generator`, int64 ``[split_size]``."""
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


def split_fn(data: Any, indices: Sequence[int], start: int, end: int) -> Tree:
    """Return the rows ``indices[start:end]`` of columns: a tensor or array, a dict or list of such, or None (stays
    None).
    """
    return map_nested(lambda column: None if column is None else column[indices[start:end]], data)
