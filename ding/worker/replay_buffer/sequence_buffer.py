"""A replay buffer that draws windows of consecutive transitions."""

from typing import Any, ClassVar

import numpy as np

from ding.data import SchemaError, TransitionBatch
from ding.utils import BUFFER_REGISTRY
from ding.worker.replay_buffer._stacking import joined, stack_pieces
from ding.worker.replay_buffer.errors import BufferArgumentError, BufferConfigError
from ding.worker.replay_buffer.naive_buffer import NaiveReplayBuffer


@BUFFER_REGISTRY.register("sequence")
class SequenceReplayBuffer(NaiveReplayBuffer):
    """A ring buffer of transitions that draws windows of consecutive ones, never across the end of an episode.

    Episodes end where the field ``cfg.end_field`` of a row is true, at the end of every piece of a pushed
    ``TransitionBatch`` that has ``lengths`` (the next row belongs to another environment or to a later piece), and
    every ``cfg.episode_len`` rows when that is given. Other pushes go on where the one before stopped.

    All windows are equally likely. For a burn-in of n steps draw windows that are n longer: they lie within one
    episode as a whole.

    See :class:`~ding.worker.replay_buffer.naive_buffer.NaiveReplayBuffer` for the rest.
    """

    _pushes_quickly = False

    config: ClassVar[dict[str, Any]] = {
        **NaiveReplayBuffer.config,
        "type": "sequence",
        # (str or None) Field that is true in the last transition of an episode. None: there is no such field.
        "end_field": "done",
        # (int or None) Length of all episodes, for rows without such a field.
        "episode_len": None,
        # (bool) Windows may run past the end of an episode; samples are one batch [B, T, ...] with a mask.
        "padding": False,
    }

    def __init__(
        self,
        cfg: Any,
        tb_logger: Any = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
    ) -> None:
        super().__init__(cfg, tb_logger, exp_name, instance_name)
        length = self._cfg["episode_len"]
        if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
            raise BufferConfigError(f"episode_len must be a positive int or None, got {length!r}")
        self._ends = np.zeros(self._size, dtype=np.bool_)
        self._pieces: np.ndarray | None = None

    def push(self, data: Any, cur_collector_envstep: int = -1) -> None:
        with self._lock:
            self._pieces = data.lengths if isinstance(data, TransitionBatch) else None
            super().push(data, cur_collector_envstep)

    def _push_rows(self, rows: Any, count: int) -> None:
        ends = self._ends_of(rows, count)
        before = self._push_count
        super()._push_rows(rows, count)
        kept = min(count, self._size)
        positions = (self._tail - kept + np.arange(kept)) % self._size
        length = self._cfg["episode_len"]
        if length is not None:
            ends = ends | ((before + 1 + np.arange(count)) % length == 0)
        self._ends[positions] = ends[count - kept :]

    def _ends_of(self, rows: Any, count: int) -> np.ndarray:
        """bool ``[count]``: whether a row is the last one of its episode or piece."""
        ends = np.zeros(count, dtype=np.bool_)
        field = self._cfg["end_field"]
        if field is not None:
            column = rows.get(field) if isinstance(rows, dict) else [_get(row, field) for row in rows]
            if column is not None:
                ends |= _as_flags(column, count, field)
        if self._pieces is not None:
            ends[np.cumsum(self._pieces) - 1] = True
        return ends

    def sample(  # type: ignore[override]
        self,
        batch: int,
        sequence: int,
        cur_learner_iter: int,
        sample_range: "slice | None" = None,
        replace: bool = False,
    ) -> Any:
        """Draw windows.

        Args:
            batch: number of windows.
            sequence: length of each.
            cur_learner_iter: not used.
            sample_range: windows lie among these rows only: a slice over the rows from the oldest (0) to the newest.
            replace: windows may repeat.

        Returns:
            A list of ``batch`` windows, each a sequence of ``sequence`` transitions. With ``cfg.padding`` a
            ``TransitionBatch`` of ``batch`` rows, with leaves ``[batch, sequence, ...]`` and the fields ``mask``
            (float32 ``[batch, sequence]``) and ``length`` (int64 ``[batch]``). ``[]`` for batch 0; ``None`` when there
            are fewer than ``batch * sequence`` rows (without ``replace``) or not enough windows, which is logged.

        Raises:
            BufferArgumentError: a negative size, a window without rows, or a range that selects nothing.
        """
        self._check_size(batch)
        if isinstance(sequence, bool) or not isinstance(sequence, (int, np.integer)) or sequence < 1:
            raise BufferArgumentError(f"the length of a window must be an int > 0, got {sequence!r}")
        if batch == 0:
            return []
        if self._limiter is None:
            return self._sample_windows(int(batch), int(sequence), sample_range, replace)
        return self._sample_limited(
            self._limiter,
            batch * sequence,
            lambda: self._sample_windows(int(batch), int(sequence), sample_range, replace),
        )

    def _sample_windows(self, batch: int, sequence: int, sample_range: "slice | None", replace: bool) -> Any:
        with self._lock:
            windows = self._draw_windows(batch, sequence, sample_range, replace)
            if windows is None:
                return None
            starts, lengths = windows
            begin = np.cumsum(lengths) - lengths
            ranks = np.repeat(starts - begin, lengths) + np.arange(int(lengths.sum()))
            oldest = self._tail if self._count == self._size else 0
            rows = self._storage.read((oldest + ranks) % self._size)  # type: ignore[union-attr]
            self._counters.sampled += len(ranks)
        rows = self._copy_out(rows)
        if self._cfg["padding"]:
            return stack_pieces(rows if isinstance(rows, TransitionBatch) else joined([rows]), lengths, sequence)
        return [rows[at : at + sequence] for at in begin.tolist()]

    def _draw_windows(
        self, batch: int, sequence: int, sample_range: "slice | None", replace: bool
    ) -> "tuple[np.ndarray, np.ndarray] | None":
        """Rank of the first row of each window, and the number of its rows; ``None`` (logged) when it cannot be."""
        count = self._count
        if count == 0 or (count < batch * sequence and not replace):
            self._refuse(batch, f"windows of {sequence} need {batch * sequence} elements, it holds {count}")
            return None
        ranks = range(count) if sample_range is None else self._ranks(sample_range, count)
        oldest = self._tail if count == self._size else 0
        ends = np.flatnonzero(self._ends[(oldest + np.arange(ranks.start, ranks.stop)) % self._size])
        bounds = np.unique(np.concatenate([[-1], ends, [len(ranks) - 1]])) + 1
        firsts, lengths = bounds[:-1], np.diff(bounds)
        choices = lengths if self._cfg["padding"] else np.maximum(lengths - sequence + 1, 0)
        total = int(choices.sum())
        if total == 0 or (total < batch and not replace):
            self._refuse(
                batch,
                f"{len(ranks)} elements in {len(lengths)} episodes or pieces, the longest of {int(lengths.max())}, "
                f"hold {total} windows of {sequence}",
            )
            return None
        picked = np.asarray(self._draw(total, batch, replace))
        upto = np.cumsum(choices)
        piece = upto.searchsorted(picked, "right")
        offset = picked - (upto - choices)[piece]
        return ranks.start + firsts[piece] + offset, np.minimum(sequence, lengths[piece] - offset)

    def clear(self) -> None:
        with self._lock:
            super().clear()
            self._ends[:] = False

    def state_dict(self) -> dict[str, Any]:
        with self._lock:
            return {**super().state_dict(), "ends": self._ends.copy()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        with self._lock, self._reading_state():
            ends = None
            if "ends" in state_dict:
                ends = np.array(state_dict["ends"], dtype=np.bool_).reshape(self._ends.shape)
            super().load_state_dict(state_dict)
            if ends is not None:
                self._ends = ends


def _get(row: Any, field: str) -> Any:
    return row.get(field, False) if isinstance(row, dict) else False


def _as_flags(column: Any, count: int, field: str) -> np.ndarray:
    try:
        flags = np.asarray(column).reshape(count, -1)
        return np.asarray(flags.astype(np.bool_).any(axis=1))
    except (TypeError, ValueError) as error:
        raise SchemaError(f"field {field!r} (end_field) must be true or false in each row") from error
