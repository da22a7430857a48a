"""Pieces of trajectories as one batch ``[B, T, ...]``, padded where they are shorter."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ding.data import SchemaError, TransitionBatch
from ding.data.columns import map_leaves


def stack_pieces(rows: TransitionBatch, lengths: np.ndarray, width: int) -> TransitionBatch:
    """B pieces as B rows whose leaves have the shape ``[B, width, ...]``.

    Args:
        rows: the concatenation of the pieces.
        lengths: int64 ``[B]``, at most ``width`` each.
        width: steps per piece. What a piece lacks is filled with zeros (``None`` in lists of objects) at its end.

    Returns:
        The batch, with a float32 tensor ``mask`` ``[B, width]`` (1: a step, 0: filling) and an int64 array ``length``
        ``[B]``.

    Raises:
        SchemaError: the rows have a field ``mask`` or ``length`` of their own, or have no common schema.
    """
    taken = {"mask", "length"} & rows.columns.keys()
    if taken:
        raise SchemaError(f"stacked pieces get the field {sorted(taken)[0]!r}, which the rows have already")
    ends = np.cumsum(lengths)
    steps = np.arange(width)
    inside = steps < lengths[:, None]
    # Filling reads some row and is wiped out afterwards.
    index = np.where(inside, (ends - lengths)[:, None] + steps, 0)
    full = bool(inside.all())
    columns = map_leaves(lambda leaf: _stack_leaf(leaf, index, None if full else ~inside), rows.columns)
    assert isinstance(columns, dict)
    columns["mask"] = torch.from_numpy(inside.astype(np.float32))
    columns["length"] = np.asarray(lengths, dtype=np.int64)
    return TransitionBatch.unchecked(columns, len(lengths))


def _stack_leaf(leaf: Any, index: np.ndarray, filling: "np.ndarray | None") -> Any:
    if isinstance(leaf, list):
        hidden = np.zeros(index.shape, dtype=np.bool_) if filling is None else filling
        return [
            [None if gone else leaf[i] for i, gone in zip(positions, row)]
            for positions, row in zip(index.tolist(), hidden.tolist())
        ]
    if isinstance(leaf, torch.Tensor):
        stacked = leaf.index_select(0, torch.from_numpy(index.reshape(-1)).to(leaf.device))
        stacked = stacked.reshape(*index.shape, *leaf.shape[1:])
        if filling is not None:
            stacked[torch.from_numpy(filling).to(leaf.device)] = 0
        return stacked
    array = leaf.take(index, axis=0)
    if filling is not None:
        array[filling] = 0
    return array


def joined(pieces: Sequence[Any]) -> TransitionBatch:
    """The rows of all pieces (``TransitionBatch``es or lists of dicts) as one batch of columns.

    Raises:
        SchemaError: they have no common schema.
    """
    batches = [piece if isinstance(piece, TransitionBatch) else TransitionBatch.from_rows(piece) for piece in pieces]
    batch = TransitionBatch.concat(batches)
    return TransitionBatch.unchecked(batch.columns, len(batch))
