"""Replay buffer that samples windows of consecutive transitions."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from ding.data import SchemaError, TransitionBatch
from ding.data.replay.checks import places, sample_size
from ding.data.replay.errors import BufferArgumentError, BufferConfigError
from ding.data.replay.index import Rows
from ding.data.replay.windows import EpisodeEnds, Streams, joined, stack_segments
from ding.data.roles import Samples, StateDict, Writer
from ding.data.storage import SavedRows, is_elided
from ding.utils import BUFFER_REGISTRY
from ding.worker.replay_buffer.base_buffer import takes_state_dict
from ding.worker.replay_buffer.naive_buffer import NaiveReplayBuffer


@BUFFER_REGISTRY.register("sequence")
class SequenceReplayBuffer(NaiveReplayBuffer):
    """Ring buffer of transitions that samples windows of consecutive ones, never across the end of an episode.

    Episodes end where the field ``cfg.end_field`` of a row is true; at the end of every segment of a pushed
    ``TransitionBatch`` with ``lengths`` (the next row belongs to another environment or to a later segment); and in
    other pushes, every ``cfg.episode_len`` rows if that is set. Such other pushes continue where the previous one
    stopped. ``save_data`` preserves the ends of rows that are stored as columns.

    With ``cfg.stream_field`` the rows of several environments may be interleaved: a window consists of consecutive rows
    of one environment, and segments of a push do not end episodes.

    All windows are equally likely. For a burn-in of n steps, sample windows that are n steps longer; the whole window
    is from one episode.

    All other behaviour is that of :class:`~ding.worker.replay_buffer.naive_buffer.NaiveReplayBuffer`.
    """

    config: ClassVar[dict[str, Any]] = {
        **NaiveReplayBuffer.config,
        "type": "sequence",
        # (str or None) Field that is true in the last transition of an episode. None: there is no such field.
        "end_field": "done",
        # (int or None) Length of all episodes, for rows without such a field.
        "episode_len": None,
        # (str or None) Field with the environment of a row, an int. None: pushed rows are consecutive.
        "stream_field": None,
        # (bool) Allow windows to exceed the end of an episode; samples are one batch [B, T, ...] with a mask.
        "padding": False,
    }

    def __init__(
        self,
        cfg: Mapping[str, Any],
        tb_logger: Writer | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
    ) -> None:
        super().__init__(cfg, tb_logger, exp_name, instance_name)
        length = self._cfg["episode_len"]
        if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
            raise BufferConfigError(f"episode_len must be a positive int or None, got {length!r}")
        # Rows are numbered in push order, starting at 0: number `push_count - 1` is the newest.
        self.ends = EpisodeEnds()
        self._streams = Streams()
        # Segment lengths of the rows being pushed; None: they continue where the previous push stopped.
        self._segments: np.ndarray | None = None
        # Number of rows since the start of an episode of fixed length.
        self._phase = 0

    def _insert(self, data: object) -> bool:
        with self.engine.lock:
            self._segments = data.lengths if isinstance(data, TransitionBatch) else None
            if self._cfg["stream_field"] is not None:
                self._segments = None
            return super()._insert(data)

    def _add(self, rows: Rows, count: int) -> None:
        ends = self._ends_of(rows, count)
        names, first = self._streams_of(rows, count), self.push_count
        super()._add(rows, count)
        self._note(first, ends, names)
        self._phase = 0 if self._segments is not None else self._phase + count

    def _note(self, first: int, ends: np.ndarray, names: np.ndarray | None) -> None:
        """Record the ends and the streams of the stored rows from number ``first`` on."""
        self.ends.add(first + ends.nonzero()[0])
        if names is not None:
            self._streams.add(first, names)
        if self.count() == self.engine.size:
            self.ends.drop_before(self._first_number())
            self._streams.drop_before(self._first_number())

    def _streams_of(self, rows: Rows, count: int) -> np.ndarray | None:
        """Return the stream of each row, int64 ``[count]``; ``None`` without streams."""
        field = self._cfg["stream_field"]
        if field is None:
            return None
        column = [_get(row, field) for row in rows] if isinstance(rows, list) else rows.get(field)
        try:
            return np.asarray(np.zeros(count) if column is None else column).reshape(count).astype(np.int64)
        except (TypeError, ValueError) as error:
            raise SchemaError(f"field {field!r} (stream_field) must be an int in each row") from error

    def _check_values(self, rows: dict[str, Any], count: int) -> None:
        super()._check_values(rows, count)
        self._segments = None
        self._ends_of(rows, count)
        self._streams_of(rows, count)

    def _first_number(self) -> int:
        """Return the number of the oldest row."""
        return self.push_count - self.count()

    def _ends_of(self, rows: Rows, count: int) -> np.ndarray:
        """Return whether each row is the last one of its episode or segment, bool ``[count]``."""
        ends = np.zeros(count, dtype=np.bool_)
        field = self._cfg["end_field"]
        if field is not None:
            column = [_get(row, field) for row in rows] if isinstance(rows, list) else rows.get(field)
            if column is not None:
                ends |= _as_flags(column, count, field)
        length = self._cfg["episode_len"]
        if self._segments is not None:
            ends[np.cumsum(self._segments) - 1] = True
        elif length is not None:
            ends |= (self._phase + 1 + np.arange(count)) % length == 0
        return ends

    def sample(  # type: ignore[override]
        self,
        batch: int,
        sequence: int,
        cur_learner_iter: int,
        sample_range: "slice | None" = None,
        replace: bool = False,
    ) -> Samples | None:
        """Sample windows.

        Args:
            batch: Number of windows.
            sequence: Length of each window.
            cur_learner_iter: Ignored.
            sample_range: Restrict windows to a slice of the rows, from the oldest (0) to the newest.
            replace: Sample with replacement.

        Returns:
            A list of ``batch`` windows, each a sequence of ``sequence`` transitions. With ``cfg.padding`` a
            ``TransitionBatch`` of ``batch`` rows, with leaves ``[batch, sequence, ...]`` and the fields ``mask``
            (float32 ``[batch, sequence]``) and ``length`` (int64 ``[batch]``). ``[]`` for batch 0; ``None``, which is
            logged, if there are fewer than ``batch * sequence`` rows (without ``replace``) or too few windows.

        Raises:
            BufferArgumentError: The size is negative, a window has no rows, or the range selects no rows.
        """
        batch = sample_size(batch)
        if isinstance(sequence, bool) or not isinstance(sequence, (int, np.integer)) or sequence < 1:
            raise BufferArgumentError(f"the length of a window must be an int > 0, got {sequence!r}")
        if batch == 0:
            return []
        if self.engine.limiter is None:
            return self._sample_windows(batch, int(sequence), sample_range, replace)
        return self.engine.limited_sample(
            batch * int(sequence),
            lambda: self._sample_windows(batch, int(sequence), sample_range, replace),
        )

    def _sample_windows(self, batch: int, sequence: int, sample_range: "slice | None", replace: bool) -> Samples | None:
        with self.engine.lock:
            windows = self._draw_windows(batch, sequence, sample_range, replace)
            if windows is None:
                return None
            ranks, lengths = windows
            rows = self.engine.read((self.engine.ring.head + ranks) % self.engine.size)
        if self._cfg["padding"]:
            return stack_segments(rows if isinstance(rows, TransitionBatch) else joined([rows]), lengths, sequence)
        begin = np.cumsum(lengths) - lengths
        windows_: list[Any] = [rows[at : at + sequence] for at in begin.tolist()]
        return windows_

    def _draw_windows(
        self, batch: int, sequence: int, sample_range: "slice | None", replace: bool
    ) -> "tuple[np.ndarray, np.ndarray] | None":
        """Return the ranks of the rows of all windows, and the number of rows of each; ``None`` (logged) if too few."""
        engine, count = self.engine, self.count()
        if count == 0 or (count < batch * sequence and not replace):
            engine.refuse(batch, f"windows of {sequence} need {batch * sequence} elements, it holds {count}")
            return None
        ranks = range(count) if sample_range is None else places(sample_range, count)
        if ranks.step != 1:
            raise BufferArgumentError(f"windows are of consecutive rows: sample_range {sample_range!r} has a step")
        first = self._first_number()
        lengths, order = self._episodes(first + ranks.start, first + ranks.stop)
        choices = lengths if self._cfg["padding"] else np.maximum(lengths - sequence + 1, 0)
        total = int(choices.sum())
        if total == 0 or (total < batch and not replace):
            engine.refuse(
                batch,
                f"{len(ranks)} elements in {len(lengths)} episodes or segments, the longest of {int(lengths.max())}, "
                f"hold {total} windows of {sequence}",
            )
            return None
        picked = engine.draws.uniform(total, batch, replace)
        upto = np.cumsum(choices)
        segment = upto.searchsorted(picked, "right")
        offset = picked - (upto - choices)[segment]
        starts = np.cumsum(lengths)[segment] - lengths[segment] + offset
        sizes = np.minimum(sequence, lengths[segment] - offset)
        inside = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
        return ranks.start + (inside if order is None else order[inside]), sizes

    def _episodes(self, begin: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the int64 lengths of the episodes of the rows in ``[begin, stop)``.

        With streams, which are concatenated here, also return the positions of the rows after ``begin``.
        """
        if self._cfg["stream_field"] is None:
            return self.ends.segment_lengths(begin, stop), None
        streams = list(self._streams.within(begin, stop).values())
        order = streams[0] if len(streams) == 1 else np.concatenate(streams)
        ends = np.zeros(stop - begin, dtype=np.bool_)
        ends[self.ends.within(begin, stop)] = True
        last = ends[order]
        last[np.cumsum([len(rows) for rows in streams]) - 1] = True
        return np.diff(np.flatnonzero(last), prepend=-1), order

    def clear(self) -> None:
        with self.engine.lock:
            super().clear()
            self.ends.clear()
            self._streams.clear()

    # ------------------------------------------------------------------ files and states

    def _saved_rows(self) -> TransitionBatch | list[Any] | dict[str, Any]:
        rows = super()._saved_rows()
        lengths = self.ends.segment_lengths(self._first_number(), self.push_count)
        if isinstance(rows, TransitionBatch):
            return TransitionBatch.unchecked(rows.columns, len(rows), lengths)
        return {**rows, "lengths": lengths} if is_elided(rows) else rows

    def _insert_saved(self, rows: SavedRows) -> None:
        if rows.lengths is None:
            super()._insert_saved(rows)
            return
        with self.engine.lock:
            first = self.push_count
            super()._insert_saved(rows)
            # They arrived in parts, which are not segments.
            self._segments = rows.lengths if self._cfg["stream_field"] is None else None
            ends, names = self._ends_of(rows.columns, rows.count), self._streams_of(rows.columns, rows.count)
            self.ends.drop_from(first)
            self._streams.drop_from(first)
            self._note(first, ends, names)
            self._phase = 0

    def state_dict(self) -> StateDict:
        """See the base class. ``ends`` are the positions of the rows that end an episode, counted from the oldest row;
        ``streams`` are the environments of all rows, if ``cfg.stream_field`` is set.
        """
        with self.engine.lock:
            held = (self._first_number(), self.push_count)
            streams = {} if self._cfg["stream_field"] is None else {"streams": self._streams.names(*held)}
            return {**super().state_dict(), "ends": self.ends.within(*held), "phase": self._phase, **streams}

    @takes_state_dict
    def load_state_dict(self, _state_dict: StateDict) -> None:
        if set(_state_dict) == {"data"}:
            super().load_state_dict(_state_dict)
            return
        with self.engine.reading_state(_state_dict, ("ends", "phase", "valid_count")):
            ends, phase = np.asarray(_state_dict["ends"]), int(_state_dict["phase"])
            if ends.ndim != 1 or ends.dtype.kind != "i" or not _ascend_within(ends, int(_state_dict["valid_count"])):
                raise BufferArgumentError(f"the state of {self.engine.name!r} is damaged: its ends are no places")
            names = np.asarray(_state_dict.get("streams", np.zeros(int(_state_dict["valid_count"]), dtype=np.int64)))
            if names.shape != (int(_state_dict["valid_count"]),) or names.dtype.kind != "i":
                raise BufferArgumentError(f"the state of {self.engine.name!r} is damaged: not each row has a stream")
            super().load_state_dict(_state_dict)
            self.ends.clear()
            self.ends.add(self._first_number() + ends)
            self._streams.clear()
            if self._cfg["stream_field"] is not None:
                self._streams.add(self._first_number(), names)
            self._phase = phase


def _ascend_within(numbers: np.ndarray, count: int) -> bool:
    inside = (numbers >= 0) & (numbers < count)
    return bool(inside.all() and (np.diff(numbers) > 0).all())


def _get(row: object, field: str) -> object:
    return row.get(field, False) if isinstance(row, dict) else False


def _as_flags(column: "torch.Tensor | Iterable[Any]", count: int, field: str) -> np.ndarray:
    """Return whether any value of a row is true, bool ``[count]``."""
    try:
        values = column.detach().cpu() if isinstance(column, torch.Tensor) else column
        try:
            flags = np.asarray(values).reshape(count, -1)
        except (TypeError, ValueError):
            # Objects: some may lack the field, or have it as an array or on a device.
            flags = np.array([[bool(torch.as_tensor(value).any())] for value in values])
        return np.asarray(flags.astype(np.bool_).any(axis=1))
    except (RuntimeError, TypeError, ValueError) as error:
        raise SchemaError(f"field {field!r} (end_field) must be true or false in each row") from error
