"""Rows out of many chunks, from a copy in memory where there is room for one.

A batch of a prioritised or uniform sample touches about as many chunks as it has rows. Reading each from its file costs
a Python call per chunk and column. So chunks are copied once into large ring columns, and a batch is one indexing
operation per column.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ding.data.columns import iter_leaves, map_leaves, take
from ding.data.exchange import ChunkBroken, ChunkMissing, DataPlane, gather

log = logging.getLogger(__name__)

_SPARE = 1.25
_LEAST_ROWS = 1024


class RowReader:
    """Reads rows of chunks.

    Args:
        plane: where the chunks lie.
        cache_rows: rows that will be asked for again and again; a quarter more is kept.
        cache_bytes: how much memory that may take; when it is not enough, rows are read from the plane each time.
    """

    def __init__(self, plane: DataPlane, cache_rows: int, cache_bytes: int) -> None:
        self._plane = plane
        self._rows = max(_LEAST_ROWS, int(cache_rows * _SPARE))
        self._bytes = cache_bytes
        self._columns: dict[str, Any] | None = None
        self._schema: Any = None
        self._off = cache_bytes <= 0
        self._begin: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._tail = 0

    def read(self, chunks: Sequence[str], rows: np.ndarray) -> dict[str, Any]:
        """Columns with a row for each of ``rows`` (int64 ``[B, 2]``: position in ``chunks``, row there).

        Raises:
            ChunkMissing, ChunkBroken: a chunk cannot be read.
            IndexError: a position or a row is out of range.
            SchemaError: the chunks have different fields.
        """
        if self._off:
            return gather(self._plane, chunks, rows).columns
        begins = np.empty(len(chunks), dtype=np.int64)
        lengths = np.empty(len(chunks), dtype=np.int64)
        for position, chunk in enumerate(chunks):
            place = self._begin.get(chunk) or self._copy_in(chunk)
            if place is None:
                return gather(self._plane, chunks, rows).columns
            begins[position], lengths[position] = place
        # Copying one in may have pushed out another.
        if any(chunk not in self._begin for chunk in chunks):
            return gather(self._plane, chunks, rows).columns
        positions, within = rows[:, 0], rows[:, 1]
        if len(rows) and (rows.min() < 0 or positions.max() >= len(chunks) or (within >= lengths[positions]).any()):
            raise IndexError("a batch names rows that its chunks do not have")
        picked: Any = take(self._columns or {}, begins[positions] + within)
        return dict(picked)

    def can_read(self, chunk: str) -> bool:
        """Whether the plane gives this chunk."""
        try:
            self._plane.get(chunk)
        except (ChunkMissing, ChunkBroken):
            return False
        return True

    def _copy_in(self, chunk: str) -> tuple[int, int] | None:
        """Copy a chunk into the ring; ``None`` when that is not possible."""
        batch = self._plane.get(chunk)
        columns, count = batch.columns, len(batch)
        if self._columns is None and not self._make_room_for(columns, count):
            return None
        if count > self._rows or _schema(columns) != self._schema:
            return None
        if self._tail + count > self._rows:
            # What lies behind the tail goes, too: it is the oldest, and ``_push_out`` relies on their order.
            self._push_out(self._tail, self._rows)
            self._tail = 0
        begin, end = self._tail, self._tail + count
        self._push_out(begin, end)
        _write(self._columns, columns, begin, end)
        self._begin[chunk] = (begin, count)
        self._tail = end
        return begin, count

    def _make_room_for(self, columns: dict[str, Any], count: int) -> bool:
        leaves: list[Any] = [leaf for _, leaf in iter_leaves(columns)]
        if any(isinstance(leaf, list) for leaf in leaves):
            self._off = True
            return False
        row_bytes = sum(leaf.nbytes for leaf in leaves) / count
        if row_bytes * self._rows > self._bytes:
            log.info(
                "%d rows of %d bytes would take more than %d MB; they are read from their files each time",
                self._rows, row_bytes, self._bytes >> 20,
            )  # fmt: skip
            self._off = True
            return False
        self._schema = _schema(columns)
        self._columns = map_leaves(self._empty, columns)  # type: ignore[assignment]
        return True

    def _empty(self, leaf: Any) -> Any:
        shape = (self._rows, *leaf.shape[1:])
        return torch.empty(shape, dtype=leaf.dtype) if isinstance(leaf, torch.Tensor) else np.empty(shape, leaf.dtype)

    def _push_out(self, begin: int, end: int) -> None:
        """Forget the chunks that lie in ``[begin, end)``: the oldest ones, as the ring is filled in order."""
        gone = []
        for chunk, (start, count) in self._begin.items():
            if start < end and begin < start + count:
                gone.append(chunk)
            elif gone or start >= end:
                break
        for chunk in gone:
            del self._begin[chunk]


def _schema(columns: Any) -> list[tuple[str, str, str, tuple[int, ...]]]:
    """Path, kind, dtype and shape of a row of each leaf; none of them may be a list."""
    return [
        (path, type(leaf).__name__, str(leaf.dtype), tuple(leaf.shape[1:]))
        for path, leaf in iter_leaves(columns)
        if not isinstance(leaf, list)
    ]


def _write(into: Any, columns: Any, begin: int, end: int) -> None:
    for key, value in columns.items():
        if isinstance(value, dict):
            _write(into[key], value, begin, end)
        else:
            into[key][begin:end] = value
