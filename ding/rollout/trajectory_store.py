"""The steps of many environments, which grow into trajectory segments and are returned as columns."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ding.data import SchemaError, TransitionBatch
from ding.data.columns import Columns, concat
from ding.data.roles import StateDict
from ding.rollout.step_blocks import StepBlocks
from ding.torch_utils.data_helper import columns_as_tensors
from ding.utils.nested import iter_leaves, map_paths
from ding.utils.rows import take

logger = logging.getLogger(__name__)

_Rows: TypeAlias = tuple[dict[str, Columns], np.ndarray]


class TrajectoryStore:
    """One growing trajectory segment per environment, and the finished ones until they are taken.

    Vector steps are kept unchanged, except for large arrays (see :class:`StepBlocks`), and joined when segments are
    taken, preferably many at a time. Each row carries the number of its segment, so any set of segments is selected
    with one sort. A row is therefore copied at most twice, and a single step whose segments all end with it is not
    copied. A segment may begin with the last rows of the one before it; these are copied when one of the two is taken.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
        rows_as_tensors: arrays with a row shape leave as tensors (float64 as float32); scalar columns stay arrays.
        sequence_len: steps of the sequences that segments will be cut into.

    Attributes:
        counts: int64 ``[env_num]``, steps of the growing segment of each environment. Read-only.
        finished_steps: steps of the segments that :meth:`take_finished` would return.
        finished_sequences: Number of sequences they will be cut into; the last one of each segment may be shorter.
        new_steps: int64 ``[S]``, number of new steps in each of the segments taken last.
    """

    def __init__(self, env_num: int, rows_as_tensors: bool = False, sequence_len: int = 1) -> None:
        if env_num < 1:
            raise ValueError(f"env_num must be positive, found {env_num}")
        self._env_num = env_num
        self._rows_as_tensors = rows_as_tensors
        self._sequence_len = sequence_len
        # The steps since segments were last taken, and the joined earlier ones; next to each, the segment numbers of
        # its rows,
        # -1 for rows taken or dropped.
        self._steps: list[_Rows] = []
        self._chunks: list[_Rows] = []
        self._blocks = StepBlocks()
        # Numbers of the finished segments, of the growing one of each environment, and the next number.
        self._finished: list[np.ndarray] = []
        self._growing = np.arange(env_num, dtype=np.int64)
        self._next = env_num
        # Segment number -> number of rows shared with the previous one, and, until they are copied, that segment.
        self._shared: dict[int, int] = {}
        self._before: dict[int, int] = {}
        # Fields of the steps of a loaded state, until the first step afterwards.
        self._loaded: set[str] = set()
        self.counts = np.zeros(env_num, dtype=np.int64)
        self.finished_steps = self.finished_sequences = 0
        self.new_steps = np.zeros(0, dtype=np.int64)

    def append(self, env_ids: np.ndarray, columns: dict[str, Columns]) -> None:
        """Add one step of the environments ``env_ids`` (int64 ``[N]``, distinct) from columns with N rows each.

        The columns belong to the store from now on.
        """
        if self._loaded:
            self._check_loaded(columns)
        if self._blocks.expected_rows:
            columns = map_paths(self._blocks.placed, columns)
        self._steps.append((columns, self._growing[env_ids]))
        self.counts[slice(None) if len(env_ids) == self._env_num else env_ids] += 1

    def finish(self, env_ids: np.ndarray, kept: "np.ndarray | None" = None) -> None:
        """End the growing segments of these environments: they wait, in this order, for :meth:`take_finished`.

        Args:
            kept: int64 ``[N]``, the number of their last steps with which the next segments begin (``None``: 0); no
                more than they have.
        """
        counts, before = self.counts[env_ids], self._growing[env_ids]
        self.finished_steps += int(np.add.reduce(counts))
        self.finished_sequences += int(np.add.reduce(-(-counts // self._sequence_len)))
        self._finished.append(before)
        self._begin(env_ids)
        if kept is not None and kept.any():
            self.counts[env_ids] = kept
            for number, last, count in zip(self._growing[env_ids].tolist(), before.tolist(), kept.tolist()):
                if count:
                    self._shared[number], self._before[number] = count, last

    def take_finished(self) -> TransitionBatch:
        """Take the finished segments out, concatenated in the order in which they were finished, with their
        ``lengths``; empty segments are left out.

        Raises:
            SchemaError: the steps differ in fields, dtypes or row shapes; the message names the field. Growing
                segments are lost then, too.
        """
        total, parts = self.finished_steps, self._finished
        self._finished, self.finished_steps, self.finished_sequences = [], 0, 0
        if not total:
            self.new_steps = np.zeros(0, dtype=np.int64)
            return TransitionBatch.from_rows([])
        finished = parts[0] if len(parts) == 1 else np.concatenate(parts)
        try:
            columns, lengths = self._picked(finished)
        except SchemaError:
            self.clear()
            raise
        filled = lengths > 0
        self.new_steps = lengths[filled]
        if self._shared:
            self.new_steps -= np.array([self._shared.pop(number, 0) for number in finished.tolist()])[filled]
        lengths = lengths[filled]
        return TransitionBatch.unchecked(
            columns_as_tensors(columns) if self._rows_as_tensors else columns, total, lengths
        )

    def _picked(self, finished: np.ndarray) -> tuple[dict[str, Columns], np.ndarray]:
        """Take out the rows of finished segments, in their order, with the lengths of these (int64 ``[S]``)."""
        if self._steps:
            parts, ids = zip(*self._steps)
            self._steps = []
            rows = ids[0] if len(ids) == 1 else np.concatenate(ids)
            self._chunks.append((self._joined(parts, self._blocks.close(parts, len(rows))), rows))
        if len(self._chunks) == 1 and not self._before and np.array_equal(self._chunks[0][1], finished):
            # Segments of single steps, and nothing else.
            return self._chunks.pop()[0], np.ones(len(finished), dtype=np.int64)
        # Of each segment its place in the order of the finished ones; -1 for all others, and behind the last one for
        # rows of older segments.
        first = int(finished.min())
        place = np.full(self._next - first + 1, -1, dtype=np.int64)
        place[finished - first] = np.arange(len(finished))
        picked: list[Any] = []
        places = []
        for columns, rows in self._chunks:
            of_rows = place[np.maximum(rows - first, -1)]
            here = np.flatnonzero(of_rows >= 0)
            if len(here):
                picked.append(columns if len(here) == len(rows) else take(columns, here))
                places.append(of_rows[here])
                rows[here] = -1
        self._chunks = [chunk for chunk in self._chunks if (chunk[1] >= 0).any()]
        in_order = np.concatenate(places)
        lengths = np.bincount(in_order, minlength=len(finished))
        joined, order = self._joined(picked), in_order.argsort(kind="stable")
        if self._before:
            order, lengths = self._with_shared(finished, joined, order, lengths)
            joined = {key: take(value, order) for key, value in joined.items()}
        elif (np.diff(in_order) < 0).any():  # Not of single steps: to copy frames takes as long as their env.
            joined = {key: take(value, order) for key, value in joined.items()}
        return joined, lengths

    def _with_shared(
        self, finished: np.ndarray, rows: dict[str, Columns], order: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """``order`` and ``lengths`` with the rows that the finished segments share with those before them; what later
        segments share with the finished ones is copied to a chunk of its own.

        Args:
            rows: those of the finished segments.
            order: int64, their positions there, segment by segment.
            lengths: int64 ``[S]``, how many of ``order`` each segment has.
        """
        parts: dict[int, np.ndarray] = {}
        for number, part in zip(finished.tolist(), np.split(order, np.cumsum(lengths)[:-1])):
            before = self._before.pop(number, None)
            parts[number] = part if before is None else np.concatenate([parts[before][-self._shared[number] :], part])
        for number, before in list(self._before.items()):
            if before in parts:
                kept = parts[before][-self._shared[number] :]
                chunk = {key: take(value, kept) for key, value in rows.items()}
                # In front of the chunks with further rows of this segment.
                self._chunks.insert(0, (chunk, np.full(len(kept), number)))
                del self._before[number]
        return np.concatenate(list(parts.values())), np.array([len(part) for part in parts.values()])

    def clear(self, env_ids: "np.ndarray | None" = None) -> None:
        """Forget the growing segments of these environments (``None``: everything, finished segments too)."""
        if env_ids is None:
            self._steps, self._chunks, self._finished = [], [], []
            self._shared, self._before = {}, {}
            self._blocks.close()
            self.finished_steps = self.finished_sequences = 0
            self._begin(np.arange(self._env_num))
            return
        for _, rows in (*self._steps, *self._chunks):
            rows[np.isin(rows, self._growing[env_ids])] = -1
        self._steps = [step for step in self._steps if (step[1] >= 0).any()]
        for number in self._growing[env_ids].tolist():
            self._shared.pop(number, None)
            self._before.pop(number, None)
        self._begin(env_ids)

    def state_dict(self) -> StateDict:
        """Return the growing segments, one environment after the other, with their lengths and how many of their steps
        the segments before have (both int64 ``[env_num]``).
        """
        counts, grown = self.counts.copy(), np.flatnonzero(self.counts)
        shared = np.array([self._shared.get(number, 0) for number in self._growing.tolist()])
        columns = self._picked(self._growing[grown])[0] if len(grown) else {}
        state, loaded = {"counts": counts, "shared": shared, "columns": columns}, self._loaded
        self.load_state_dict(state)
        self._loaded = loaded
        return state

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Continue the growing segments of a :meth:`state_dict`, and nothing else.

        Steps of another version, whose fields differ from those of the next step, are dropped with a warning.
        """
        self.clear()
        self.counts = state_dict["counts"].copy()
        if self.counts.any():
            self._chunks = [(state_dict["columns"], np.repeat(self._growing, self.counts))]
            self._loaded = {path for path, _ in iter_leaves(state_dict["columns"])}
        shared = state_dict.get("shared", np.zeros_like(self.counts))
        self._shared = {number: count for number, count in zip(self._growing.tolist(), shared.tolist()) if count}

    def _check_loaded(self, columns: dict[str, Columns]) -> None:
        loaded, self._loaded = self._loaded, set()
        found = {path for path, _ in iter_leaves(columns)}
        grown = np.flatnonzero(self.counts)
        if loaded == found or not len(grown):
            return
        logger.warning(
            "%d steps of ongoing episodes are dropped: a version that recorded other fields saved them, which differ "
            "in %s; the segments begin anew with the next steps",
            np.add.reduce(self.counts),
            sorted(loaded ^ found),
        )
        self.clear(grown)

    def _begin(self, env_ids: np.ndarray) -> None:
        """Begin new segments in these environments."""
        self._growing[env_ids] = np.arange(self._next, self._next + len(env_ids))
        self._next += len(env_ids)
        self.counts[env_ids] = 0

    def _joined(
        self, parts: Sequence[dict[str, Columns]], written: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, Columns]:
        if len(parts) == 1:
            return parts[0]
        try:
            return concat(parts, whole=written)  # type: ignore[return-value]
        except SchemaError:
            if not self._rows_as_tensors:
                raise
            # An env may give doubles at a reset and floats at its steps.
            return concat([columns_as_tensors(part) for part in parts])  # type: ignore[return-value]
