"""A batch, a dict of columns, cut into minibatches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ding.utils.errors import InvalidArgumentError
from ding.utils.nested import map_nested
from ding.utils.rows import num_rows, take_rows


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
        yield {key: take_rows(value, index, key) for key, value in data.items()}


def joined_data_parts(data: Mapping[str, Any], split_size: int) -> tuple[dict[str, Any], int]:
    """The shuffled parts of :func:`split_data_generator` one after the other in one dict, and their number."""
    parts = _part_rows(data, split_size, shuffle=True)
    rows = np.concatenate(parts)
    return {key: take_rows(value, rows, key) for key, value in data.items()}, len(parts)


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


def split_fn(data: Any, indices: Sequence[int], start: int, end: int) -> Any:
    """The rows ``indices[start:end]`` of columns: a tensor or array, a dict or list of such, or None (stays None)."""
    return map_nested(lambda column: None if column is None else column[indices[start:end]], data)
