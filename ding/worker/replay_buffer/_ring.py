"""What all ring buffers of this package share: configuration, storage, reports, used data, life cycle."""

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ding.data import SchemaError, TransitionBatch
from ding.data.columns import map_leaves, row_list, take
from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.data.storage import (
    ElidedRows,
    ElidingStorage,
    ObjectStorage,
    SavedRows,
    Storage,
    columns_of,
    filled_storage,
    is_elided,
    make_storage,
)
from ding.utils import build_logger, deep_merge_dicts, get_rank
from ding.worker.replay_buffer._draw import UniformDraw, generator_state, new_generator, restore_generator
from ding.worker.replay_buffer._monitors import PeriodicThruputMonitor, ThruputCounters
from ding.worker.replay_buffer._ring_config import limiter_of, positive_int, storage_options
from ding.worker.replay_buffer._used_data import UsedDataRemover
from ding.worker.replay_buffer.base_buffer import IBuffer
from ding.worker.replay_buffer.errors import (
    BufferArgumentError,
    BufferClosedError,
    RateLimitTimeout,
    ReplayBufferError,
)
from ding.worker.replay_buffer.rate_limiter import SampleRatioLimiter

_FILE_KIND = "replay buffer"


class RingBuffer(IBuffer):
    """A ring of ``replay_buffer_size`` slots; subclasses say how to sample and what else they know of a slot."""

    def __init__(
        self,
        cfg: Any,
        tb_logger: Any = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
    ) -> None:
        self._cfg = deep_merge_dicts(self.default_config(), cfg)
        self._exp_name = exp_name
        self._instance_name = instance_name
        self._size = positive_int(self._cfg["replay_buffer_size"], "replay_buffer_size")
        self._deepcopy = bool(self._cfg["deepcopy"])
        self._options = storage_options(self._cfg)
        self._lock = threading.RLock()
        self._storage: Storage | None = None
        self._tail = 0
        self._count = 0
        self._push_count = 0
        self._closed = False
        self._generator = new_generator()
        self._draw = UniformDraw(self._generator)
        self._remover = UsedDataRemover(self._cfg.get("path_data")) if self._cfg["enable_track_used_data"] else None
        self._limiter, self._limit_timeout_s = limiter_of(self._cfg, self._size)
        self._start_reports(tb_logger)

    def _start_reports(self, tb_logger: Any) -> None:
        rank0 = get_rank() == 0
        self._owns_writer = rank0 and tb_logger is None
        logger, writer = build_logger(
            f"./{self._exp_name}/log/{self._instance_name}", self._instance_name, need_tb=self._owns_writer
        )
        self._logger: Any = logger
        self._tb_logger = (writer if tb_logger is None else tb_logger) if rank0 else None
        self._monitor: PeriodicThruputMonitor | None = None
        self._counters = ThruputCounters()
        if rank0:
            self._monitor = PeriodicThruputMonitor(
                self._instance_name, {"seconds": self._report_seconds()}, self._logger, self._tb_logger, self._counters
            )

    def _report_seconds(self) -> float:
        return float(self._cfg["periodic_thruput_seconds"])

    # ------------------------------------------------------------------ properties

    @property
    def replay_buffer_size(self) -> int:
        """Number of slots."""
        return self._size

    @property
    def push_count(self) -> int:
        """Number of elements pushed so far; ``clear`` does not change it."""
        return self._push_count

    def count(self) -> int:
        return self._count

    def __len__(self) -> int:
        return self._count

    # ------------------------------------------------------------------ life cycle

    def start(self) -> None:
        """Start to remove used data, if that is tracked."""
        if self._remover is not None:
            self._remover.start()

    def close(self) -> None:
        """Remove all elements and end all threads. May be called again; a closed buffer takes no elements."""
        with self._lock:
            if self._closed:
                return
            self.clear()
            self._closed = True
        if self._limiter is not None:
            self._limiter.close()
        if self._monitor is not None:
            self._monitor.close()
        if self._remover is not None:
            self._remover.close()
        if self._tb_logger is not None:
            self._tb_logger.flush()
            if self._owns_writer:
                self._tb_logger.close()

    def _check_open(self) -> None:
        if self._closed:
            raise BufferClosedError(f"buffer {self._instance_name!r} was closed")

    # ------------------------------------------------------------------ rate limit

    @property
    def rate_limiter(self) -> "SampleRatioLimiter | None":
        """The limiter of ``cfg.rate_limit``, if there is one."""
        return self._limiter

    def _admitted(self, count: int, acquire: Callable[[int, float], None], what: str) -> bool:
        """Wait for the limiter, outside of the lock: the other side has to get on meanwhile."""
        try:
            acquire(count, self._limit_timeout_s)
        except RateLimitTimeout as error:
            self._logger.info("%s refuses a %s: %s", self._instance_name, what, error)
            return False
        return True

    def _push_limited(self, limiter: SampleRatioLimiter, data: Any, push: Callable[[], bool]) -> None:
        count = self._number_of(data)
        if not self._admitted(count, limiter.acquire_push, "push"):
            return
        done = False
        try:
            done = push()
        finally:
            if not done:
                limiter.undo_push(count)

    def _sample_limited(self, limiter: SampleRatioLimiter, count: int, sample: Callable[[], Any]) -> Any:
        if not self._admitted(count, limiter.acquire_sample, "sample"):
            return None
        sampled = None
        try:
            sampled = sample()
        finally:
            if sampled is None:
                limiter.undo_sample(count)
        return sampled

    # ------------------------------------------------------------------ writing

    def _number_of(self, data: Any) -> int:
        """How many elements a push of ``data`` adds."""
        return len(data) if isinstance(data, (TransitionBatch, list)) else 1

    def _push_unlimited(self, data: Any) -> None:
        """Push what is no insert of a collector: neither rate limit nor throughput controller are asked."""
        raise NotImplementedError

    def _rows_of(self, data: Any) -> tuple[Any, int]:
        """What was pushed, as columns or as a list, and its number of rows."""
        if self._deepcopy:
            data = copy.deepcopy(data)
        if isinstance(data, TransitionBatch):
            count = len(data)
            storage = self._storage
            if count and (storage is None or storage.columnar):
                try:
                    return data.columns, count
                except SchemaError:
                    # Rows that were changed by hand: the storage says whether it takes them.
                    return data.rows(), count
            return data.rows(), count
        if isinstance(data, list):
            # A plain one, which is what the storages take for rows: a TrajBuffer is a list, too.
            return list(data), len(data)
        return [data], 1

    def _place(self, rows: Any, count: int) -> tuple[int, int]:
        """Write rows at the tail; returns the first position and the number of rows that found a slot.

        Nothing has changed when this raises.
        """
        size, start = self._size, self._tail
        if count > size:
            start = (start + count - size) % size
            rows = take(rows, slice(count - size, count))
            count = size
        storage = self._storage
        if storage is None:
            storage = make_storage(rows, size, self._options)
        try:
            storage.write(start, columns_of(rows) if storage.columnar and type(rows) is list else rows, count)
        except SchemaError:
            if not self._options.mixed_rows:
                raise
            storage = self._to_objects(storage)
            storage.write(start, rows if isinstance(rows, list) else row_list(rows, count), count)
        self._storage = storage
        return start, count

    def _to_objects(self, storage: Storage) -> ObjectStorage:
        """The same rows as objects."""
        self._logger.info(
            "%s: rows of another form were pushed; all rows are kept as objects from now on", self._instance_name
        )
        objects = ObjectStorage(self._size)
        positions = self._held_positions()
        for position, row in zip(positions.tolist(), storage.read(positions)):
            objects.write(position, [row], 1)
        return objects

    def _held_positions(self) -> np.ndarray:
        """Positions that hold an element, oldest first."""
        begin = self._tail if self._count == self._size else 0
        return (begin + np.arange(self._count)) % self._size

    def _tracked(self, rows: Any, count: int) -> list[Any]:
        """The pushed elements as a list, when used data is tracked.

        Raises:
            AssertionError: an element has no ``data_id``, by which its file could be removed.
        """
        if self._remover is None:
            return []
        elements = rows if isinstance(rows, list) else row_list(rows, count)
        self._remover.check(elements)
        return elements

    def _use_up(self, elements: Sequence[Any]) -> None:
        if self._remover is not None and elements:
            self._remover.add_all(elements)

    # ------------------------------------------------------------------ files and states

    def save_data(self, file_name: str) -> None:
        """Write all elements, oldest first, to a file that :meth:`load_data` reads (see :mod:`ding.data.safe_file`).

        Missing folders are made. Rows in columns are read as they are written, a part at a time, so memory for a copy
        of them is not needed; pushes and samples of other threads wait until the file is written.

        Raises:
            SafeFileError: an element holds something that cannot be saved safely; the message says where.
            OSError: the file cannot be written; one of this name is left as it was.
        """
        with self._lock:
            rows = self._saved_rows()
            write_tree(file_name, rows, _FILE_KIND, rows["layout"] if is_elided(rows) else None)

    def _saved_rows(self) -> Any:
        """All elements, oldest first, as a file holds them."""
        return [] if self._storage is None else self._storage.saved(self._held_positions())

    def load_data(self, file_name: str) -> None:
        """Push the elements of a file of :meth:`save_data`; a rate limit neither refuses nor counts them.

        The whole file is checked before anything is pushed; rows in columns are then read from it a part at a time.

        Raises:
            SafeFileError: the file is broken or not one of ours; the buffer stays as it was.
            SchemaError: its rows do not fit to those in the buffer, or an index of elided rows refers to no frame; the
                buffer stays as it was.
            OSError: the file cannot be read, or the disk of a buffer in files is full, which may happen half-way.
        """
        data = read_tree(file_name, _FILE_KIND, mapped=True)
        if is_elided(data):
            self._push_saved(ElidedRows(data, mapped=True))
        elif isinstance(data, TransitionBatch):
            self._push_saved(SavedRows(data.columns, len(data), data.lengths, mapped=True))
        elif isinstance(data, list):
            # Objects are kept as they are pushed, and must not refer to the file.
            self._push_whole(copy.deepcopy(data))
        else:
            raise SafeFileError(f"{file_name} holds no rows but a {type(data).__name__}")

    def _push_state(self, data: Any) -> None:
        """Push the ``data`` of a state that holds nothing else."""
        if is_elided(data):
            self._push_saved(ElidedRows(data))
        else:
            self._push_whole(data)

    def _push_whole(self, data: Any) -> None:
        """Push elements of a file or state in one go."""
        with self._lock:
            if self._admits(self._number_of(data)):
                self._push_unlimited(data)

    def _push_saved(self, rows: SavedRows) -> None:
        """Push the rows of a file or state, a part at a time; all or, when some do not fit, none."""
        with self._lock:
            self._check_open()
            for begin, end in rows.chunks(0, rows.count):
                self._check_values(take(rows.columns, slice(begin, end)), end - begin)  # type: ignore[arg-type]
            if self._admits(rows.count):
                for begin, end in rows.chunks(0, rows.count):
                    self._push_unlimited(TransitionBatch.unchecked(rows.expand(begin, end), end - begin))

    def _check_values(self, rows: dict[str, Any], count: int) -> None:
        """Raise what a push of rows raises for the values in them; some fields may be left out."""
        self._tracked(rows, count)
        if self._storage is not None and self._storage.columnar and not self._options.mixed_rows:
            self._storage.check(rows, count)

    def _admits(self, count: int) -> bool:
        """Whether a push of so many elements is allowed; logged when it is not."""
        return True

    def _ring_state(self) -> dict[str, Any]:
        """The part of a state that all ring buffers have, as copies in memory."""
        storage, data = self._storage, None
        if isinstance(storage, ElidingStorage):
            data = storage.compact(self._held_positions())
        elif storage is not None:
            rows = storage.read(self._held_positions())
            data = rows.columns if storage.columnar else rows
        return {
            "data": data,
            "replay_buffer_size": self._size,
            "tail": self._tail,
            "valid_count": self._count,
            "push_count": self._push_count,
            "generator": generator_state(self._generator),
            "draw": self._draw.state_dict(),
            "rate_limit": None if self._limiter is None else self._limiter.state_dict(),
        }

    def _load_ring_state(self, state: Mapping[str, Any], positions: np.ndarray) -> None:
        """Take over a state of :meth:`_ring_state` whose elements lay at ``positions``.

        Nothing has changed when this raises.
        """
        tail, count, push_count = int(state["tail"]), int(state["valid_count"]), int(state["push_count"])
        if not 0 <= tail < self._size or not 0 <= count <= self._size or len(positions) != count:
            raise BufferArgumentError(
                f"the state of {self._instance_name!r} is damaged: {count} elements before slot {tail} of {self._size}"
            )
        generator = np.random.Generator(np.random.PCG64(0))
        restore_generator(generator, state["generator"])
        draw = UniformDraw(generator)
        draw.load_state_dict(state["draw"])
        storage = filled_storage(state["data"], positions, self._size, self._options)
        if self._limiter is not None and state.get("rate_limit") is not None:
            self._limiter.load_state_dict(state["rate_limit"])
        self._generator, self._draw, self._storage = generator, draw, storage
        self._tail, self._count, self._push_count = tail, count, push_count
        self._counters.have = count

    @contextlib.contextmanager
    def _reading_state(self) -> Iterator[None]:
        """Tell errors in a state by their name."""
        try:
            yield
        except (SchemaError, ReplayBufferError):
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise BufferArgumentError(f"the state of {self._instance_name!r} is damaged: {error!r}") from error

    def _check_state(self, state: Mapping[str, Any], keys: Sequence[str]) -> None:
        if not isinstance(state, Mapping):
            raise BufferArgumentError(f"a state is a dict, found {type(state).__name__}")
        missing = [key for key in (*keys, "replay_buffer_size") if key not in state]
        if missing:
            raise BufferArgumentError(f"the state of {self._instance_name!r} lacks {missing}; it has {sorted(state)}")
        if state["replay_buffer_size"] != self._size:
            raise BufferArgumentError(
                f"the state is that of a buffer of {state['replay_buffer_size']} elements, "
                f"{self._instance_name!r} has {self._size}"
            )

    # ------------------------------------------------------------------ reading

    def _copy_out(self, sampled: Any) -> Any:
        if not self._deepcopy:
            return sampled
        if isinstance(sampled, TransitionBatch):
            columns = map_leaves(lambda leaf: copy.deepcopy(leaf) if isinstance(leaf, list) else leaf, sampled.columns)
            return TransitionBatch.unchecked(columns, len(sampled))  # type: ignore[arg-type]
        return copy.deepcopy(sampled)

    def _checked_size(self, size: Any) -> int:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise BufferArgumentError(f"the size of a sample must be an int >= 0, got {size!r}")
        return int(size)

    def _ranks(self, sample_range: Any, count: int) -> range:
        """The logical places (0 is the oldest element) that a ``sample_range`` selects.

        Raises:
            BufferArgumentError: it is no slice of ints, or it selects nothing.
        """
        try:
            if not isinstance(sample_range, slice):
                raise TypeError("no slice")
            ranks = range(count)[sample_range]
        except (TypeError, ValueError) as error:
            raise BufferArgumentError(f"sample_range must be a slice of ints, got {sample_range!r}: {error}") from error
        if not ranks:
            raise BufferArgumentError(f"sample_range {sample_range!r} selects nothing of {count} elements")
        return ranks

    def _refuse(self, size: int, reason: str) -> None:
        self._logger.info("%s gives no sample of %d: %s", self._instance_name, size, reason)
