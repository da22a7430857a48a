"""The store in which the trajectory segments of several environments grow."""

from typing import Any

import numpy as np
import torch

from ding.data.columns import Columns, SchemaError, concat, take
from ding.data.transition_batch import TransitionBatch


class TrajectoryStore:
    """One growing trajectory segment per environment, and the finished ones until they are taken.

    The vector steps lie in a log as they came, not copied. Each row of the log carries the number of its segment, so
    that any set of segments is picked with one sort when they are taken, which is best done with many at a time. A
    single step whose segments all end with it leaves as it came.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
        rows_as_tensors: arrays with a row shape leave as tensors (float64 as float32); scalar columns stay arrays.

    Attributes:
        counts: int64 ``[env_num]``, steps of the growing segment of each environment. Do not write.
        finished_steps: steps of the segments that :meth:`take_finished` would return.
    """

    def __init__(self, env_num: int, rows_as_tensors: bool = False) -> None:
        if env_num < 1:
            raise ValueError(f"env_num must be positive, found {env_num}")
        self._env_num = env_num
        self._rows_as_tensors = rows_as_tensors
        self._steps: list[dict[str, Columns]] = []
        self._row_segments: list[np.ndarray] = []
        # Numbers of the finished segments, of the growing one of each environment, and the next number.
        self._finished: list[np.ndarray] = []
        self._growing = np.arange(env_num, dtype=np.int64)
        self._next = env_num
        self.counts = np.zeros(env_num, dtype=np.int64)
        self.finished_steps = 0

    def append(self, env_ids: np.ndarray, columns: dict[str, Columns]) -> None:
        """Add one step of the environments ``env_ids`` (int64 ``[N]``, distinct) from columns with N rows each.

        The columns belong to the store from now on.
        """
        self._steps.append(columns)
        self._row_segments.append(self._growing[env_ids])
        self.counts[slice(None) if len(env_ids) == self._env_num else env_ids] += 1

    def finish(self, env_ids: np.ndarray) -> None:
        """End the growing segments of these environments: they wait, in this order, for :meth:`take_finished`."""
        self.finished_steps += int(np.add.reduce(self.counts[env_ids]))
        self._finished.append(self._growing[env_ids])
        self._begin(env_ids)

    def take_finished(self) -> TransitionBatch:
        """Take the finished segments out, concatenated in the order in which they were finished, with their
        ``lengths``; empty segments are left out.

        Raises:
            SchemaError: the steps differ in fields, dtypes or row shapes; the message names the field. Growing
                segments are lost then, too.
        """
        total, parts = self.finished_steps, self._finished
        self._finished, self.finished_steps = [], 0
        if not total:
            return TransitionBatch.from_rows([])
        finished = parts[0] if len(parts) == 1 else np.concatenate(parts)
        try:
            columns, rows = self._joined(), np.concatenate(self._row_segments)
        except SchemaError:
            self.clear()
            raise
        self._steps, self._row_segments = [], []
        if len(rows) == len(finished) and (rows == finished).all():
            lengths = np.ones(total, dtype=np.int64)
        else:
            order, lengths = self._picked(columns, rows, finished)
            columns = _taken(columns, order)
        if self._rows_as_tensors:
            columns = as_tensors(columns)
        return TransitionBatch.unchecked(columns, total, lengths)

    def _picked(
        self, columns: dict[str, Columns], rows: np.ndarray, finished: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The positions of the rows of finished segments, in their order, and the lengths of these segments.

        The other rows go back to the log.
        """
        first = int(rows.min())
        # Of each segment its place in the order of the finished ones, -1 for all others.
        place = np.full(self._next - first, -1, dtype=np.int64)
        # A segment without steps may be older than every row.
        place[finished[finished >= first] - first] = np.flatnonzero(finished >= first)
        places = place[rows - first]
        growing = np.flatnonzero(places < 0)
        if len(growing):
            self._steps.append(_taken(columns, growing))
            self._row_segments.append(rows[growing])
        order = places.argsort(kind="stable")[len(growing) :]
        lengths = np.bincount(places[order])
        return order, lengths[lengths > 0]

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the growing segments of these environments (``None``: everything, finished segments too)."""
        if env_ids is None:
            self._steps, self._row_segments, self._finished, self.finished_steps = [], [], [], 0
            self._begin(np.arange(self._env_num))
            return
        dropped, log = self._growing[env_ids], list(zip(self._steps, self._row_segments))
        self._steps, self._row_segments = [], []
        for step, segments in log:
            kept = np.flatnonzero(~np.isin(segments, dropped))
            if len(kept):
                self._steps.append(step if len(kept) == len(segments) else _taken(step, kept))
                self._row_segments.append(segments[kept])
        self._begin(env_ids)

    def _begin(self, env_ids: np.ndarray) -> None:
        """Begin new segments in these environments."""
        self._growing[env_ids] = np.arange(self._next, self._next + len(env_ids))
        self._next += len(env_ids)
        self.counts[env_ids] = 0

    def _joined(self) -> dict[str, Columns]:
        steps = self._steps
        if len(steps) == 1:
            return steps[0]
        try:
            return concat(steps)  # type: ignore[return-value]
        except SchemaError:
            if not self._rows_as_tensors:
                raise
            # An env may give doubles at a reset and floats at its steps.
            return concat([as_tensors(step) for step in steps])  # type: ignore[return-value]


def as_tensors(columns: Columns) -> Any:
    """Arrays with a row shape become tensors that share memory (float64 is copied to float32), scalar columns stay.

    The column form of :func:`ding.rollout.to_tensor_transitions`.
    """
    if isinstance(columns, dict):
        return {key: as_tensors(value) for key, value in columns.items()}
    if not isinstance(columns, np.ndarray) or columns.ndim < 2:
        return columns
    return torch.from_numpy(columns.astype(np.float32) if columns.dtype == np.float64 else columns)


def _taken(columns: dict[str, Columns], rows: np.ndarray) -> dict[str, Columns]:
    return {key: take(value, rows) for key, value in columns.items()}
