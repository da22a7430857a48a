"""The store in which the trajectory segments of several environments grow."""

from typing import Any, TypeAlias

import numpy as np
import torch

from ding.data.columns import Columns, SchemaError, concat, take
from ding.data.transition_batch import TransitionBatch

_Rows: TypeAlias = tuple[dict[str, Columns], np.ndarray]


class TrajectoryStore:
    """One growing trajectory segment per environment, and the finished ones until they are taken.

    The vector steps are kept as they came, not copied, and joined when segments are taken, which is best done with many
    at a time. Each row carries the number of its segment, so that any set of segments is picked with one sort. So a row
    is copied twice at most, and a single step whose segments all end with it leaves as it came.

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
        # The steps since the last time that segments were taken, and what was joined of those before; beside each the
        # numbers of the segments of its rows, -1 for rows that were taken or dropped.
        self._steps: list[_Rows] = []
        self._chunks: list[_Rows] = []
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
        self._steps.append((columns, self._growing[env_ids]))
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
            columns, lengths = self._picked(finished)
        except SchemaError:
            self.clear()
            raise
        if self._rows_as_tensors:
            columns = as_tensors(columns)
        return TransitionBatch.unchecked(columns, total, lengths)

    def _picked(self, finished: np.ndarray) -> tuple[dict[str, Columns], np.ndarray]:
        """Take out the rows of finished segments, in their order, with the lengths of these segments."""
        if self._steps:
            steps, self._steps = self._steps, []
            columns, rows = self._joined([step for step, _ in steps]), np.concatenate([ids for _, ids in steps])
            if not self._chunks and len(rows) == len(finished) and (rows == finished).all():
                return columns, np.ones(len(rows), dtype=np.int64)
            self._chunks.append((columns, rows))
        # Of each segment its place in the order of the finished ones; -1 for all others, and behind the last one for
        # rows of older segments.
        first = int(finished.min())
        place = np.full(self._next - first + 1, -1, dtype=np.int64)
        place[finished - first] = np.arange(len(finished))
        picked, places = [], []
        for columns, rows in self._chunks:
            of_rows = place[np.maximum(rows - first, -1)]
            here = np.flatnonzero(of_rows >= 0)
            if len(here):
                picked.append(columns if len(here) == len(rows) else _taken(columns, here))
                places.append(of_rows[here])
                rows[here] = -1
        self._chunks = [chunk for chunk in self._chunks if (chunk[1] >= 0).any()]
        in_order = np.concatenate(places)
        lengths = np.bincount(in_order)
        return _taken(self._joined(picked), in_order.argsort(kind="stable")), lengths[lengths > 0]

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the growing segments of these environments (``None``: everything, finished segments too)."""
        if env_ids is None:
            self._steps, self._chunks, self._finished, self.finished_steps = [], [], [], 0
            self._begin(np.arange(self._env_num))
            return
        for _, rows in (*self._steps, *self._chunks):
            rows[np.isin(rows, self._growing[env_ids])] = -1
        self._steps = [step for step in self._steps if (step[1] >= 0).any()]
        self._begin(env_ids)

    def _begin(self, env_ids: np.ndarray) -> None:
        """Begin new segments in these environments."""
        self._growing[env_ids] = np.arange(self._next, self._next + len(env_ids))
        self._next += len(env_ids)
        self.counts[env_ids] = 0

    def _joined(self, parts: list[dict[str, Columns]]) -> dict[str, Columns]:
        if len(parts) == 1:
            return parts[0]
        try:
            return concat(parts)  # type: ignore[return-value]
        except SchemaError:
            if not self._rows_as_tensors:
                raise
            # An env may give doubles at a reset and floats at its steps.
            return concat([as_tensors(part) for part in parts])  # type: ignore[return-value]


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
