"""Single rows out of many chunks."""

from collections.abc import Sequence

import numpy as np

from ding.data.columns import concat, take
from ding.data.exchange.protocols import AnyRef, DataPlane
from ding.data.transition_batch import TransitionBatch


def gather(plane: DataPlane, refs: "Sequence[AnyRef]", rows: "np.ndarray | Sequence[Sequence[int]]") -> TransitionBatch:
    """A batch of the rows that a sampler chose.

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
    starts = np.flatnonzero(np.diff(sorted_places[:, 0], prepend=-1))
    parts = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(places)]):
        batch = plane.get(refs[int(sorted_places[start, 0])])
        picked = sorted_places[start:stop, 1]
        if picked.max() >= len(batch):
            raise IndexError(f"row {picked.max()} of a chunk of {len(batch)} rows")
        parts.append(take(batch.columns, picked))
    joined = parts[0] if len(parts) == 1 else concat(parts)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return TransitionBatch.trusted(dict(take(joined, back)), len(places))
