"""What all ring buffers have in public, over a :class:`~ding.data.replay.engine.ReplayEngine`."""

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
    """A ring of ``replay_buffer_size`` slots; subclasses say how to sample and what else they know of a slot.

    Attributes:
        engine: holds the rows. Whatever reads or changes it from outside takes ``engine.lock``.
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
        """A buffer with the same elements, priorities and state of the random generator, as of one moment.

        It logs to the same text file and writes no curves. Used data it removes after :meth:`start` only.
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
        """Number of slots."""
        return self.engine.size

    @property
    def push_count(self) -> int:
        """Number of elements pushed so far; ``clear`` does not change it."""
        return self.engine.ring.push_count

    @property
    def counters(self) -> ThruputCounters:
        """How much was pushed, sampled and removed, and how much there is. Do not write."""
        return self.engine.counters

    @property
    def rate_limiter(self) -> "SampleRatioLimiter | None":
        """The limiter of ``cfg.rate_limit``, if there is one."""
        return self.engine.limiter

    @property
    def nbytes(self) -> int:
        """Bytes of the elements that it holds; objects count as their references."""
        storage = self.engine.rows.storage
        return 0 if storage is None else storage.nbytes * self.engine.ring.count // self.engine.size

    def count(self) -> int:
        return self.engine.ring.count

    def __len__(self) -> int:
        return self.engine.ring.count

    def start(self) -> None:
        """Start to remove used data, if that is tracked."""
        self.engine.start()

    def close(self) -> None:
        """Remove all elements and end all threads. May be called again; a closed buffer takes no elements."""
        self.engine.close()

    _is_end = staticmethod(sys.is_finalizing)

    def __del__(self) -> None:
        # A constructor that failed early leaves nothing to close, and the end of the interpreter nothing to do it with.
        if hasattr(self, "engine") and not self._is_end():
            self.close()

    # ------------------------------------------------------------------ files and states

    def save_data(self, file_name: str) -> None:
        """Write all elements, oldest first, to a file that :meth:`load_data` reads (see :mod:`ding.data.safe_file`).

        Missing folders are made. Rows in columns are read as they are written, a part at a time, so memory for a copy
        of them is not needed; pushes and samples of other threads wait until the file is written.

        Raises:
            SafeFileError: an element holds something that cannot be saved safely; the message says where.
            OSError: the file cannot be written; one of this name is left as it was.
        """
        with self.engine.lock:
            write_rows(file_name, self._saved_rows())

    def _saved_rows(self) -> TransitionBatch | list[Any] | dict[str, Any]:
        """All elements, oldest first, as a file holds them."""
        return self.engine.rows.saved(self.engine.ring.held())

    def load_data(self, file_name: str) -> None:
        """Push the elements of a file of :meth:`save_data`; a rate limit neither refuses nor counts them.

        The whole file is checked before anything is pushed; rows in columns are then read from it a part at a time.

        Raises:
            SafeFileError: the file is broken or not one of ours; the buffer stays as it was.
            SchemaError: its rows do not fit to those in the buffer, or an index of deduplicated rows refers to no
                frame; the buffer stays as it was.
            OSError: the file cannot be read, or the disk of a buffer in files is full, which may happen half-way.
        """
        rows = read_rows(file_name)
        with self.engine.lock:
            if isinstance(rows, SavedRows):
                self._insert_saved(rows)
            elif self._admits(self._number_of(rows)):
                self._insert(rows)

    def _insert_state(self, data: Any) -> None:
        """Push the ``data`` of a state that holds nothing else."""
        with self.engine.lock:
            if is_elided(data):
                self._insert_saved(ElidedRows(data))
            elif self._admits(self._number_of(data)):
                self._insert(data)

    def _insert_saved(self, rows: SavedRows) -> None:
        """Push the rows of a file or state, a part at a time; all or, when some do not fit, none."""
        self.engine.check_open()
        for begin, end in rows.chunks(0, rows.count):
            columns = take(rows.columns, slice(begin, end))
            self._check_values(columns, end - begin)
        if self._admits(rows.count):
            for begin, end in rows.chunks(0, rows.count):
                self._insert(TransitionBatch.unchecked(rows.expand(begin, end), end - begin))

    def _check_values(self, rows: dict[str, Any], count: int) -> None:
        """Raise what a push of rows raises for the values in them; some fields may be left out."""
        self.engine.check_used_data(rows, count)
        self.engine.rows.check(rows, count)

    def _number_of(self, data: object) -> int:
        """How many elements a push of ``data`` adds."""
        return len(data) if isinstance(data, (TransitionBatch, list)) else 1

    def _admits(self, count: int) -> bool:
        """Whether a push of so many elements is allowed; logged when it is not."""
        return True

    @abstractmethod
    def _insert(self, data: object) -> bool:
        """Push what is no insert of a collector: no rate limiter and no throughput controller is consulted."""
