"""The engine of the ring buffers: rows in a ring with their lock, limits, random draws, reports and states.

Push: the view converts rows by :meth:`ReplayEngine.received` and stores them by :meth:`ReplayEngine.add` (`Ring`
chooses the slots, `RowStore` writes). Sample: the view draws slots (`Draws`, `Priorities`) and reads them by
:meth:`ReplayEngine.read`.
"""

import contextlib
import copy
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ding.data.columns import SchemaError, row_list
from ding.data.replay.checks import positive_int, storage_options
from ding.data.replay.errors import BufferArgumentError, BufferClosedError, RateLimitTimeout, ReplayBufferError
from ding.data.replay.index import Ring, Rows
from ding.data.replay.limits import limiter_of
from ding.data.replay.priorities import Draws
from ding.data.replay.reports import PeriodicThruputMonitor, ThruputCounters, UsedDataRemover
from ding.data.roles import StateDict, Writer
from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.data.storage import (
    ElidedRows,
    ObjectStorage,
    RowStorage,
    SavedRows,
    StorageOptions,
    columns_of,
    filled_storage,
    is_elided,
    make_storage,
)
from ding.data.transition_batch import TransitionBatch
from ding.utils import build_logger, get_rank
from ding.utils.nested import map_leaves
from ding.utils.rows import take

T = TypeVar("T")
_FILE_KIND = "replay buffer"


class RowStore:
    """Rows by slot. The first rows determine the storage. Not thread-safe.

    Args:
        size: number of slots.
        options: Storage options.
        turned: Called with the mismatch when rows of another form turn all rows into objects.
    """

    def __init__(self, size: int, options: StorageOptions, turned: Callable[[SchemaError], None] | None = None) -> None:
        self.size = size
        self.options = options
        self.storage: RowStorage | None = None
        self._turned = turned

    def write(self, start: int, rows: Rows, count: int, held: Callable[[], np.ndarray]) -> None:
        """Write ``count`` rows (at most ``size``) to ``start, start + 1, ...``, wrapping around after the last slot.

        Args:
            start: slot of the first row.
            rows: columns, or a list.
            count: number of rows.
            held: Returns the occupied slots.

        Raises:
            SchemaError: The rows do not match, and ``mixed_rows`` is off. Nothing was changed.
            OSError: The disk that holds the rows is full. Nothing was changed.
        """
        storage = self.storage
        if storage is None:
            storage = make_storage(rows, self.size, self.options)
        try:
            storage.write(start, columns_of(rows) if storage.columnar and type(rows) is list else rows, count)
        except SchemaError as misfit:
            if not self.options.mixed_rows:
                raise
            storage = self._as_objects(held(), misfit)
            storage.write(start, rows if isinstance(rows, list) else row_list(rows, count), count)
        self.storage = storage

    def _as_objects(self, slots: np.ndarray, misfit: SchemaError) -> ObjectStorage:
        """Return the rows in these slots as objects."""
        objects = ObjectStorage(self.size)
        for slot, row in zip(slots.tolist(), self.read(slots)):
            objects.write(slot, [row], 1)
        if self._turned is not None:
            self._turned(misfit)
        return objects

    def write_to(self, slots: np.ndarray, rows: dict[str, Any]) -> None:
        """Write columns to any slots, int64 ``[N]``: one write per run of neighbours."""
        ends = np.flatnonzero((slots[1:] - slots[:-1] - 1) % self.size) + 1
        for begin, end in itertools.pairwise([0, *ends.tolist(), len(slots)]):
            part = rows if end - begin == len(slots) else take(rows, slice(begin, end))
            self.write(int(slots[begin]), part, end - begin, lambda: slots[:0])

    def read(self, slots: np.ndarray) -> "TransitionBatch | list[Any]":
        """Return copies of the rows in int64 ``[N]`` slots: a ``TransitionBatch``, or a list of objects."""
        return self.storage.read(slots) if self.storage is not None else []

    def erase(self, slots: np.ndarray) -> None:
        """Release the objects in these slots."""
        if self.storage is not None:
            self.storage.erase(slots)

    def clear(self) -> None:
        """Remove all rows and their schema."""
        if self.storage is not None:
            self.storage.close()
        self.storage = None

    def check(self, columns: dict[str, Any], count: int) -> None:
        """Raise the errors of :meth:`write` for the values in columns; fields may be missing."""
        if self.storage is not None and self.storage.columnar and not self.options.mixed_rows:
            self.storage.check(columns, count)

    def copied(self, slots: np.ndarray) -> object:
        """Return these rows as plain data for a state: columns, deduplicated rows or a list; ``None`` if empty."""
        return None if self.storage is None else self.storage.copied(slots)

    def saved(self, slots: np.ndarray) -> "TransitionBatch | list[Any] | dict[str, Any]":
        """Return the rows in these slots for :func:`write_rows`, to be written before the next change."""
        return [] if self.storage is None else self.storage.saved(slots)


def copied_deeply(rows: "TransitionBatch | list[Any]") -> "TransitionBatch | list[Any]":
    """Return a deep copy of rows that were read; rows stored as arrays are copies already."""
    if not isinstance(rows, TransitionBatch):
        return copy.deepcopy(rows)
    columns = map_leaves(lambda leaf: copy.deepcopy(leaf) if isinstance(leaf, list) else leaf, rows.columns)
    return TransitionBatch.unchecked(columns, len(rows))


class ReplayEngine:
    """Common core of every ring buffer. Callers hold :attr:`lock` while reading or changing rows.

    Args:
        cfg: config of the buffer.
        report_s: seconds between reports of the throughput.
        tb_logger: Tensorboard writer to share; without one the engine creates (and later closes) its own.
        exp_name: folder of the experiment.
        name: name of the log file and of the tensorboard tags.
        left: Called under the lock with the rows that leave the buffer.
    """

    def __init__(
        self,
        cfg: Mapping[str, Any],
        report_s: float,
        tb_logger: Writer | None = None,
        exp_name: str = "default_experiment",
        name: str = "buffer",
        left: Callable[[Any], None] | None = None,
    ) -> None:
        self.name = name
        self.size = positive_int(cfg["replay_buffer_size"], "replay_buffer_size")
        self.lock = threading.RLock()
        self.ring = Ring(self.size)
        self.rows = RowStore(self.size, storage_options(cfg), self._log_turn)
        self.draws = Draws()
        self.counters = ThruputCounters()
        self.limiter, self._limit_timeout_s = limiter_of(cfg, self.size)
        self._deepcopy = bool(cfg["deepcopy"])
        self._left = left
        self._remover = UsedDataRemover(cfg.get("path_data")) if cfg["enable_track_used_data"] else None
        # Used-up elements whose files are still to be removed, by slot.
        self._retired: dict[int, Any] = {}
        self._closed = False
        rank0 = get_rank() == 0
        self._owns_writer = rank0 and tb_logger is None
        logger, writer = build_logger(f"{exp_name}/log/{name}", name, need_tb=self._owns_writer)
        assert logger is not None
        self.logger = logger
        self.writer: Writer | None = (tb_logger or writer) if rank0 else None
        self._monitor: PeriodicThruputMonitor | None = None
        if rank0:
            self._monitor = PeriodicThruputMonitor(name, {"seconds": report_s}, self.logger, self.writer, self.counters)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy: of the storage the rows, because some of its arrays are views of others.

        A copy has its own lock. It writes no curves, which would be mixed up with those of the original.
        """
        with self.lock:
            rows = (self.rows.options, self.rows.copied(self.ring.held()))
            return {**vars(self), "lock": None, "writer": None, "_owns_writer": False, "rows": rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()
        options, data = state["rows"]
        self.rows = RowStore(self.size, options, self._log_turn)
        self.rows.storage = filled_storage(data, self.ring.held(), self.size, options)

    # ------------------------------------------------------------------ life cycle

    def start(self) -> None:
        """Start removing used data if it is tracked."""
        if self._remover is not None:
            self._remover.start()

    def stop_removing(self) -> None:
        """Remove the queued used data and end the removal thread; :meth:`start` restarts it."""
        if self._remover is not None:
            self._remover.close()

    def close(self) -> None:
        """Remove all elements and end all threads. May be called repeatedly."""
        with self.lock:
            if self._closed:
                return
            self.clear()
            self._closed = True
        if self.limiter is not None:
            self.limiter.close()
        if self._monitor is not None:
            self._monitor.close()
        self.stop_removing()
        if self.writer is not None:
            self.writer.flush()
            if self._owns_writer:
                self.writer.close()

    def check_open(self) -> None:
        """Raise a :class:`BufferClosedError` after :meth:`close`."""
        if self._closed:
            raise BufferClosedError(f"buffer {self.name!r} was closed")

    def _log_turn(self, misfit: SchemaError) -> None:
        self.logger.warning(
            "%s: rows of another form were pushed (%s); all rows are kept as objects from now on, which is slower. "
            "Set storage.mixed_rows=False to refuse such rows",
            self.name,
            misfit,
        )

    # ------------------------------------------------------------------ rate limit

    def limited_push(self, count: int, push: Callable[[], bool]) -> bool:
        """Push once the rate limiter admits ``count`` elements; return False if it does not, or if ``push`` does."""
        assert self.limiter is not None
        return bool(self._limited(count, self.limiter.acquire_push, self.limiter.undo_push, push, "push"))

    def limited_sample(self, count: int, sample: Callable[[], T]) -> "T | None":
        """Sample once the rate limiter admits ``count`` elements; return ``None`` if it does not."""
        assert self.limiter is not None
        return self._limited(count, self.limiter.acquire_sample, self.limiter.undo_sample, sample, "sample")

    def _limited(
        self,
        count: int,
        acquire: Callable[[int, float], None],
        undo: Callable[[int], None],
        act: Callable[[], T],
        what: str,
    ) -> "T | None":
        # Wait outside the lock, because the other side must make progress.
        try:
            acquire(count, self._limit_timeout_s)
        except RateLimitTimeout as error:
            self.logger.info("%s refuses a %s: %s", self.name, what, error)
            return None
        result = None
        try:
            result = act()
        finally:
            if result is None or result is False:
                undo(count)
        return result

    # ------------------------------------------------------------------ writing

    def received(self, data: object) -> tuple[Rows, int]:
        """Return pushed rows, as columns or a list, and their number.

        Raises:
            BufferClosedError: The buffer was closed.
        """
        if self._closed:
            self.check_open()
        if self._deepcopy:
            data = copy.deepcopy(data)
        if isinstance(data, TransitionBatch):
            count = len(data)
            storage = self.rows.storage
            if count and (storage is None or storage.columnar):
                try:
                    return data.columns, count
                except SchemaError:
                    # Rows modified by the caller: the storage decides whether it accepts them.
                    pass
            return data.rows(), count
        # Storages take a plain list for rows: a TrajBuffer is a list, too.
        return (list(data), len(data)) if isinstance(data, list) else ([data], 1)

    def add(self, rows: Rows, count: int) -> tuple[int, int]:
        """Store rows; return the first slot and the number of rows stored (the last ones).

        Raises:
            SchemaError: The rows do not match. Nothing was changed.
            OSError: The disk that holds the rows is full. Nothing was changed.
            AssertionError: Used data is tracked, and an element has no ``data_id``.
        """
        placed = min(count, self.size)
        start = (self.ring.tail + count - placed) % self.size
        leaving = [] if self._left is None and self._remover is None else self._leaving(rows, count)
        if count > placed:
            rows = take(rows, slice(count - placed, count))
        self.rows.write(start, rows, placed, self.ring.held)
        self.counters.pushed += count
        self.counters.removed += self.ring.advance(count)
        self.counters.have = self.ring.count
        for part in leaving:
            self._let_go(part)
        if self._retired:
            slots = ((start + np.arange(placed)) % self.size).tolist()
            self._let_go([self._retired.pop(slot) for slot in slots if slot in self._retired])
        return start, placed

    def _leaving(self, rows: Rows, count: int) -> list[Any]:
        """Return the rows that leave when these arrive: old ones, and new ones without a slot."""
        if self._remover is not None:
            self.check_used_data(rows, count)
        parts: list[Any] = [self.rows.read(self.ring.leaving(count))]
        if count > self.size:
            parts.append(take(rows, slice(0, count - self.size)))
        return parts

    def check_used_data(self, rows: Rows, count: int) -> None:
        """Raise an ``AssertionError`` if used data is tracked and an element has no ``data_id``."""
        if self._remover is not None:
            self._remover.check(rows if isinstance(rows, list) else row_list(rows, count))

    def _let_go(self, rows: Any) -> None:
        """Handle rows that have left."""
        if self._left is not None:
            self._left(rows)
        if self._remover is not None:
            count = 0 if not isinstance(rows, dict) else len(next(iter(rows.values())))
            self._remover.add_all(row_list(rows, count) if isinstance(rows, dict) else rows)

    def remove(self, slots: np.ndarray, used_up: bool = False) -> None:
        """Remove the rows in these slots. Files of ``used_up`` rows stay until their slot is reused, because a reader
        that just received them still needs them.
        """
        if used_up and self._remover is not None:
            self._retired.update(zip(slots.tolist(), self.rows.read(slots)))
        elif self._left is not None or self._remover is not None:
            self._let_go(self.rows.read(slots))
        self.rows.erase(slots)
        self.ring.remove(slots)
        self.counters.removed += len(slots)
        self.counters.have = self.ring.count

    def clear(self) -> None:
        """Remove all rows. ``push_count`` and the random generator are unchanged."""
        if self._left is not None or self._remover is not None:
            self._let_go(self.rows.read(self.ring.held()))
            self._let_go(list(self._retired.values()))
        self._retired.clear()
        self.counters.removed += self.ring.count
        self.counters.have = 0
        if self.limiter is not None:
            self.limiter.reset()
        self.ring.clear()
        self.rows.clear()

    # ------------------------------------------------------------------ reading

    def read(self, slots: np.ndarray) -> "TransitionBatch | list[Any]":
        """Return copies of the rows in int64 ``[N]`` slots and count them as sampled: a batch or a list."""
        self.counters.sampled += len(slots)
        rows = self.rows.storage.read(slots) if self.rows.storage is not None else []
        return copied_deeply(rows) if self._deepcopy else rows

    def refuse(self, size: int, reason: str) -> None:
        """Log why no sample is returned."""
        self.logger.info("%s gives no sample of %d: %s", self.name, size, reason)

    # ------------------------------------------------------------------ states

    def state_dict(self) -> StateDict:
        """Return the state common to all ring buffers, as copies in memory."""
        return {
            "data": self.rows.copied(self.ring.held()),
            "replay_buffer_size": self.size,
            "tail": self.ring.tail,
            "valid_count": self.ring.count,
            "push_count": self.ring.push_count,
            "generator": self.draws.state_dict(),
            "rate_limit": None if self.limiter is None else self.limiter.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], ring: Ring) -> None:
        """Restore a :meth:`state_dict` whose rows were in the slots of ``ring``.

        Nothing is changed if this raises.
        """
        if int(state["valid_count"]) != ring.count:
            raise ValueError(f"{state['valid_count']} elements in {ring.count} slots")
        draws = Draws()
        draws.load_state_dict(dict(state["generator"]))
        storage = filled_storage(state["data"], ring.held(), self.size, self.rows.options)
        if self.limiter is not None and state.get("rate_limit") is not None:
            self.limiter.load_state_dict(state["rate_limit"])
        self.ring, self.draws, self.rows.storage = ring, draws, storage
        self.counters.have = ring.count

    @contextlib.contextmanager
    def reading_state(self, state: Mapping[str, Any], keys: Sequence[str]) -> Iterator[None]:
        """Check the keys and the size of a state, and name the errors that reading it raises.

        Raises:
            BufferArgumentError: The state lacks a key, has another size or is damaged.
        """
        if not isinstance(state, Mapping):
            raise BufferArgumentError(f"a state is a dict, found {type(state).__name__}")
        missing = [key for key in (*keys, "replay_buffer_size") if key not in state]
        if missing:
            raise BufferArgumentError(f"the state of {self.name!r} lacks {missing}; it has {sorted(state)}")
        if state["replay_buffer_size"] != self.size:
            raise BufferArgumentError(
                f"the state is that of a buffer of {state['replay_buffer_size']} elements, "
                f"{self.name!r} has {self.size}"
            )
        try:
            with self.lock:
                self.check_open()
                yield
        except (SchemaError, ReplayBufferError):
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise BufferArgumentError(f"the state of {self.name!r} is damaged: {error!r}") from error


def write_rows(path: "str | os.PathLike[str]", rows: Any) -> None:
    """Write the output of :meth:`RowStore.saved` to a file for :func:`read_rows`.

    Raises:
        SafeFileError: A row contains a value that cannot be saved safely; the message says where.
        OSError: The file cannot be written; an existing one is unchanged.
    """
    write_tree(path, rows, _FILE_KIND, rows["layout"] if is_elided(rows) else None)


def read_rows(path: "str | os.PathLike[str]") -> "SavedRows | list[Any]":
    """Return the rows of a file, read a part at a time, or its objects.

    Raises:
        SafeFileError: The file is damaged or in another format.
        SchemaError: an index of deduplicated rows refers to no frame.
        OSError: the file cannot be read.
    """
    data = read_tree(path, _FILE_KIND, mapped=True)
    if is_elided(data):
        return ElidedRows(data, mapped=True)
    if isinstance(data, TransitionBatch):
        return SavedRows(data.columns, len(data), data.lengths, mapped=True)
    if isinstance(data, list):
        # Objects are kept as pushed, and must not refer to the file.
        return copy.deepcopy(data)
    raise SafeFileError(f"{path} holds no rows but a {type(data).__name__}")
