"""Single rows out of many chunks."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ding.data.columns import SchemaError, describe_leaf
from ding.data.exchange.protocols import AnyRef, DataPlane
from ding.data.transition_batch import TransitionBatch

# Columns of a chunk, the rows that are wanted of it, and their places in the result.
_Part: TypeAlias = tuple[dict[str, Any], np.ndarray, np.ndarray]


def gather(plane: DataPlane, refs: "Sequence[AnyRef]", rows: "np.ndarray | Sequence[Sequence[int]]") -> TransitionBatch:
    """A batch of the rows that a sampler chose.

    The cost goes by the number of different chunks more than by the number of rows: gather several small batches in one
    call and slice the result.

    Args:
        plane: where the chunks lie.
        refs: the chunks (or only their ids).
        rows: int64 ``[B, 2]``, for each row of the result its chunk's position in ``refs`` and its row there.

    Returns:
        The rows in the given order, in memory of their own.

    Raises:
        IndexError: a position or a row is out of range.
        SchemaError: the chunks have different fields.
        ChunkMissing, ChunkBroken: as :meth:`DataPlane.get`.
    """
    places = np.asarray(rows, dtype=np.int64).reshape(-1, 2)
    if not len(places):
        return TransitionBatch.from_rows([])
    if places.min() < 0 or places[:, 0].max() >= len(refs):
        raise IndexError(f"rows name chunk positions {places[:, 0].min()} to {places[:, 0].max()} of {len(refs)}")
    # Stable, so that the rows of one chunk stay in the order in which they were asked for.
    order = np.argsort(places[:, 0], kind="stable")
    sorted_places = places[order]
    starts = np.flatnonzero(np.diff(sorted_places[:, 0], prepend=-1)).tolist()
    parts: list[_Part] = []
    for start, stop in zip(starts, [*starts[1:], len(places)]):
        batch = plane.get(refs[int(sorted_places[start, 0])])
        rows_here = sorted_places[start:stop, 1]
        if rows_here.max() >= len(batch):
            raise IndexError(f"row {rows_here.max()} of a chunk of {len(batch)} rows")
        parts.append((batch.columns, rows_here, order[start:stop]))
    columns = _picked(parts, len(places), [part[0] for part in parts], "")
    return TransitionBatch.unchecked(columns, len(places))


def _picked(parts: list[_Part], total: int, nodes: list[Any], path: str) -> Any:
    """The chosen rows of one node of each part, at the places where they belong."""
    first = nodes[0]
    if isinstance(first, dict):
        if any(not isinstance(node, dict) or node.keys() != first.keys() for node in nodes):
            raise SchemaError(f"the chunks have different fields at {path or 'the top level'!r}")
        return {
            key: _picked(parts, total, [node[key] for node in nodes], f"{path}.{key}" if path else str(key))
            for key in first
        }
    kind = type(first)
    if any(type(node) is not kind for node in nodes):
        raise SchemaError(f"column {path!r} is {describe_leaf(first)} in one chunk and something else in another")
    if kind is list:
        result: list[Any] = [None] * total
        for (_, rows, places), node in zip(parts, nodes):
            for place, row in zip(places.tolist(), rows.tolist()):
                result[place] = node[row]
        return result
    if any(node.dtype != first.dtype or node.shape[1:] != first.shape[1:] for node in nodes):
        raise SchemaError(f"column {path!r} has another dtype or shape than {describe_leaf(first)} in some chunk")
    if kind is torch.Tensor:
        if first.dtype is torch.bfloat16:
            return _picked(parts, total, [node.view(torch.int16) for node in nodes], path).view(torch.bfloat16)
        # numpy's indexing costs a third of torch's on so few rows.
        return torch.from_numpy(_filled(parts, total, [node.numpy() for node in nodes]))
    return _filled(parts, total, nodes)


def _filled(parts: list[_Part], total: int, arrays: list[np.ndarray]) -> np.ndarray:
    result = np.empty((total, *arrays[0].shape[1:]), dtype=arrays[0].dtype)
    for (_, rows, places), array in zip(parts, arrays):
        result[places] = array[rows]
    return result
