"""Where the samples of finished trajectory pieces wait until they are worth a file."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ding.data import SchemaError, TransitionBatch
from ding.worker.collector._parallel_ledger import Span, joined_spans
from ding.worker.collector._transitions import Samples

# Sends a batch with the spans of its pieces and the oldest and newest policy iteration among its samples.
SendChunk = Callable[[TransitionBatch, list[Span], tuple[int, int]], None]


class ChunkCutter:
    """Joins samples into chunks of about equal size. A piece is never cut in two.

    Args:
        send: takes a chunk that is complete.
        chunk_rows: rows from which on a chunk is complete.
        chunk_seconds: seconds after which a smaller one is complete too, so that data does not become old here.
    """

    def __init__(self, send: SendChunk, chunk_rows: int, chunk_seconds: float) -> None:
        if chunk_rows < 1:
            raise ValueError(f"chunk_rows must be at least 1, found {chunk_rows}")
        if chunk_seconds < 0:
            raise ValueError(f"chunk_seconds must be 0 or more, found {chunk_seconds}")
        self._send = send
        self._chunk_rows = chunk_rows
        self._chunk_seconds = chunk_seconds
        self._clear()

    def _clear(self) -> None:
        self._parts: list[Samples] = []
        self._spans: list[Span] = []
        self._rows = 0
        self._begin_s = 0.0

    def add(self, samples: Samples, spans: list[Span]) -> None:
        """Add the samples of some pieces, and send what is complete."""
        if not self._parts:
            self._begin_s = time.monotonic()
        self._parts.append(samples)
        self._spans.extend(spans)
        self._rows += len(samples)
        if self._rows >= self._chunk_rows:
            self.flush()

    def flush_if_old(self) -> None:
        """Send what has waited for ``chunk_seconds``."""
        if self._parts and time.monotonic() - self._begin_s >= self._chunk_seconds:
            self.flush()

    def flush(self) -> None:
        """Send what there is."""
        parts, spans = self._parts, self._spans
        self._clear()
        parts = [part for part in parts if len(part)]
        if parts:
            batch = _joined(parts)
            self._send(batch, joined_spans(spans), _iterations(batch))


def _joined(parts: Sequence[Samples]) -> TransitionBatch:
    batches = [part if isinstance(part, TransitionBatch) else TransitionBatch.from_rows(part) for part in parts]
    try:
        return TransitionBatch.unchecked(TransitionBatch.concat(batches).columns, sum(map(len, batches)))
    except SchemaError as error:
        raise SchemaError(
            f"the training samples of one chunk must all have the same fields, dtypes and shapes: {error}"
        ) from error


def _iterations(batch: TransitionBatch) -> tuple[int, int]:
    """Smallest and largest ``collect_iter`` of a chunk; sequence samples have one per step."""
    column: Any = batch.columns.get("collect_iter")
    if column is None:
        return -1, -1
    values = np.asarray(column, dtype=np.int64)
    return int(values.min()), int(values.max())
