"""Base class of ring buffers, over a :class:`~ding.data.replay.engine.ReplayEngine`."""

import copy
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

from ding.data import TransitionBatch
from ding.data.replay.engine import ReplayEngine, read_rows, write_rows
from ding.data.replay.limits import SampleRatioLimiter
from ding.data.replay.reports import ThruputCounters
from ding.data.roles import Writer
from ding.data.storage import ElidedRows, SavedRows, is_elided
from ding.utils import deep_merge_dicts
from ding.utils.rows import take
from ding.worker.replay_buffer.base_buffer import IBuffer


class RingBuffer(IBuffer):
    """Ring of ``replay_buffer_size`` slots; subclasses define the sampling and the data per slot.

    Attributes:
        engine: Holds the rows. Code that accesses it from outside must hold ``engine.lock``.
    """

    def __init__(
        self,
        cfg: Mapping[str, Any],
        tb_logger: Writer | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
        left: Callable[[Any], None] | None = None,
    ) -> None:
        self._cfg = deep_merge_dicts(self.default_config(), cfg)
        self.engine = ReplayEngine(self._cfg, self._report_seconds(), tb_logger, exp_name, instance_name, left)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the buffer with its elements, priorities and random generator state at one moment.

        The copy logs to the same text file and writes no curves. It removes used data only after :meth:`start`.
        """
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        with self.engine.lock:
            vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin

    @abstractmethod
    def _report_seconds(self) -> float:
        """Seconds between reports of the throughput."""

    @property
    def replay_buffer_size(self) -> int:
        """Capacity of the ring."""
        return self.engine.size

    @property
    def push_count(self) -> int:
        """Number of elements pushed so far; ``clear`` does not reset it."""
        return self.engine.ring.push_count

    @property
    def counters(self) -> ThruputCounters:
        """Numbers of pushed, sampled, removed and present elements. Read-only."""
        return self.engine.counters

    @property
    def rate_limiter(self) -> "SampleRatioLimiter | None":
        """Limiter of ``cfg.rate_limit``, if any."""
        return self.engine.limiter

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes; objects count as references."""
        storage = self.engine.rows.storage
        return 0 if storage is None else storage.nbytes * self.engine.ring.count // self.engine.size

    def count(self) -> int:
        return self.engine.ring.count

    def __len__(self) -> int:
        return self.engine.ring.count

    def start(self) -> None:
        """Start removing used data, if it is tracked."""
        self.engine.start()

    def close(self) -> None:
        """Remove all elements, end all threads and accept no more elements. Repeated calls have no effect."""
        self.engine.close()

    _is_end = staticmethod(sys.is_finalizing)

    def __del__(self) -> None:
        # Nothing to close if the constructor failed early or the interpreter is shutting down.
        if hasattr(self, "engine") and not self._is_end():
            self.close()

    # ------------------------------------------------------------------ files and states

    def save_data(self, file_name: str) -> None:
        """Write all elements, oldest first, to a file for :meth:`load_data` (see :mod:`ding.data.safe_file`).

        Missing folders are created. Rows in columns are written in parts, so no memory for a copy is needed; pushes and
        samples of other threads block until the file is written.

        Raises:
            SafeFileError: An element contains a value that cannot be saved safely; the message says where.
            OSError: The file cannot be written; an existing file is unchanged.
        """
        with self.engine.lock:
            write_rows(file_name, self._saved_rows())

    def _saved_rows(self) -> TransitionBatch | list[Any] | dict[str, Any]:
        """Return all elements, oldest first, in the format of a file."""
        return self.engine.rows.saved(self.engine.ring.held())

    def load_data(self, file_name: str) -> None:
        """Push the elements of a file written by :meth:`save_data`; rate limits do not apply.

        The whole file is checked before anything is pushed; rows in columns are then read in parts.

        Raises:
            SafeFileError: The file is broken or has another format; the buffer is unchanged.
            SchemaError: The rows do not match those in the buffer, or an index of deduplicated rows refers to a missing
                frame; the buffer is unchanged.
            OSError: The file cannot be read; or the disk of a buffer in files is full, possibly after some rows were
                pushed.
        """
        rows = read_rows(file_name)
        with self.engine.lock:
            if isinstance(rows, SavedRows):
                self._insert_saved(rows)
            elif self._admits(self._number_of(rows)):
                self._insert(rows)

    def _insert_state(self, data: Any) -> None:
        """Push the ``data`` of a state without other keys."""
        with self.engine.lock:
            if is_elided(data):
                self._insert_saved(ElidedRows(data))
            elif self._admits(self._number_of(data)):
                self._insert(data)

    def _insert_saved(self, rows: SavedRows) -> None:
        """Push the rows of a file or state in parts; either all rows or, if some do not match, none."""
        self.engine.check_open()
        for begin, end in rows.chunks(0, rows.count):
            columns = take(rows.columns, slice(begin, end))
            self._check_values(columns, end - begin)
        if self._admits(rows.count):
            for begin, end in rows.chunks(0, rows.count):
                self._insert(TransitionBatch.unchecked(rows.expand(begin, end), end - begin))

    def _check_values(self, rows: dict[str, Any], count: int) -> None:
        """Raise the errors that a push would raise for these values; some fields may be missing."""
        self.engine.check_used_data(rows, count)
        self.engine.rows.check(rows, count)

    def _number_of(self, data: object) -> int:
        """Return the number of elements that a push of ``data`` adds."""
        return len(data) if isinstance(data, (TransitionBatch, list)) else 1

    def _admits(self, count: int) -> bool:
        """Return whether a push of ``count`` elements is allowed; a refusal is logged."""
        return True

    @abstractmethod
    def _insert(self, data: object) -> bool:
        """Push data that is not from a collector, bypassing the rate limiter and the throughput controller."""
