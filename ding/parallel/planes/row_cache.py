"""Rows out of many chunks, from a copy in memory: the only cache of chunks that there is.

A batch of a prioritised or uniform sample touches about as many chunks as it has rows. Reading each from its file costs
several Python calls per chunk and column. So chunks are copied once into large ring columns, and a batch is one
indexing operation per column.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ding.data.columns import Columns, Leaf, concat, iter_leaves, map_leaves, take
from ding.data.transition_batch import TransitionBatch
from ding.parallel.planes.protocols import DataPlane

log = logging.getLogger(__name__)

_SPARE = 1.25
_LEAST_ROWS = 1024
# Objects have no size of their own; this much is taken for each.
_OBJECT_BYTES = 1024


class RowCache:
    """Reads rows of chunks. One thread at a time.

    Args:
        plane: where the chunks lie.
        rows: how many will be asked for again and again; a quarter more is kept.
        max_bytes: how much memory that may take; when it is not enough, rows are read from the plane each time.
    """

    def __init__(self, plane: DataPlane, rows: int = 0, max_bytes: int = 0) -> None:
        self._plane = plane
        self._rows = max(_LEAST_ROWS, int(rows * _SPARE))
        self._max_bytes = max_bytes
        self._ring: dict[str, Any] | None = None
        self._schema: list[object] = []
        self._off = max_bytes <= 0
        # First row and number of rows of each chunk in the ring, oldest first.
        self._places: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._tail = 0

    def read(self, chunks: Sequence[str], rows: npt.ArrayLike) -> dict[str, Any]:
        """Return columns with a row for each of ``rows``, in memory of their own.

        Args:
            chunks: ids.
            rows: int64 ``[B, 2]``: position in ``chunks``, row there.

        Raises:
            ChunkMissing, ChunkBroken: a chunk cannot be read.
            IndexError: a position or a row is out of range.
            SchemaError: the chunks have different fields.
        """
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1, 2)
        if not len(wanted):
            return {}
        if wanted.min() < 0 or wanted[:, 0].max() >= len(chunks):
            raise IndexError(f"rows name chunk positions {wanted[:, 0].min()} to {wanted[:, 0].max()} of {len(chunks)}")
        # What the ring has no place for is used here and read again the next time.
        extra: dict[str, TransitionBatch] = {}
        if not self._off:
            for chunk in chunks:
                if chunk not in self._places:
                    batch = self._plane.get(chunk)
                    if not self._keep(chunk, batch):
                        extra[chunk] = batch
                        break
        # Copying one in may have pushed out another.
        found = [self._places.get(chunk) for chunk in chunks]
        if self._ring is None or None in found:
            return self._read_each(chunks, wanted, extra)
        places = np.array(found, dtype=np.int64)[wanted[:, 0]]
        if (wanted[:, 1] >= places[:, 1]).any():
            raise IndexError("a batch names rows that its chunks do not have")
        picked: Any = take(self._ring, places[:, 0] + wanted[:, 1])
        return dict(picked)

    def _read_each(
        self, chunks: Sequence[str], wanted: np.ndarray, extra: "dict[str, TransitionBatch]"
    ) -> dict[str, Any]:
        """Read chunk by chunk: as slow as there are chunks."""
        # Stable, so that the rows of one chunk stay in the order in which they were asked for.
        order = np.argsort(wanted[:, 0], kind="stable")
        positions, within = wanted[order].T
        parts: list[Columns] = []
        for position, begin in zip(*np.unique(positions, return_index=True)):
            chunk, here = chunks[position], within[begin : np.searchsorted(positions, position, "right")]
            place = self._places.get(chunk)
            if place is not None and self._ring is not None:
                columns, count = take(self._ring, slice(place[0], place[0] + place[1])), place[1]
            else:
                batch = extra.get(chunk) or self._plane.get(chunk)
                columns, count = batch.columns, len(batch)
            if here.max() >= count:
                raise IndexError(f"row {here.max()} of a chunk of {count} rows")
            parts.append(take(columns, here))
        back: Any = take(concat(parts), np.argsort(order))
        return dict(back)

    # ------------------------------------------------------------------ the ring

    def _keep(self, chunk: str, batch: TransitionBatch) -> bool:
        """Copy a chunk into the ring; False when that is not possible."""
        columns, count = batch.columns, len(batch)
        if self._ring is None and not self._make_ring(columns, count):
            return False
        if count > self._rows or _schema(columns) != self._schema:
            return False
        if self._tail + count > self._rows:
            # What lies behind the tail goes, too: it is the oldest, and ``_push_out`` relies on their order.
            self._push_out(self._tail, self._rows)
            self._tail = 0
        begin, end = self._tail, self._tail + count
        self._push_out(begin, end)
        _write(self._ring or {}, columns, begin, end)
        self._places[chunk] = (begin, count)
        self._tail = end
        return True

    def _make_ring(self, columns: dict[str, Any], count: int) -> bool:
        row_bytes = sum(
            _OBJECT_BYTES if isinstance(leaf, list) else leaf.nbytes / count for _, leaf in iter_leaves(columns)
        )
        if row_bytes * self._rows > self._max_bytes:
            log.info(
                "%d rows of %d bytes would take more than %d MB; they are read from their files each time",
                self._rows, row_bytes, self._max_bytes >> 20,
            )  # fmt: skip
            self._off = True
            return False
        self._schema = _schema(columns)
        self._ring = map_leaves(self._empty, columns)  # type: ignore[assignment]
        return True

    def _empty(self, leaf: Leaf) -> Leaf:
        if isinstance(leaf, list):
            return [None] * self._rows
        shape = (self._rows, *leaf.shape[1:])
        return torch.empty(shape, dtype=leaf.dtype) if isinstance(leaf, torch.Tensor) else np.empty(shape, leaf.dtype)

    def _push_out(self, begin: int, end: int) -> None:
        """Forget the chunks that lie in ``[begin, end)``: the oldest ones, as the ring is filled in order."""
        over = []
        for chunk, (start, count) in self._places.items():
            if start < end and begin < start + count:
                over.append(chunk)
            elif over or start >= end:
                break
        for chunk in over:
            del self._places[chunk]


def _schema(columns: Columns) -> list[object]:
    """Path, kind, dtype and shape of a row of each leaf."""
    return [
        (path, type(leaf)) if isinstance(leaf, list) else (path, type(leaf), leaf.dtype, tuple(leaf.shape[1:]))
        for path, leaf in iter_leaves(columns)
    ]


def _write(into: dict[str, Any], columns: dict[str, Any], begin: int, end: int) -> None:
    for key, value in columns.items():
        if isinstance(value, dict):
            _write(into[key], value, begin, end)
        else:
            into[key][begin:end] = value
