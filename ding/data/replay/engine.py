"""The engine of the ring buffers: rows in a ring with their lock, limits, random draws, reports and states.

Flow of a push: the view asks :meth:`ReplayEngine.received` for rows and :meth:`ReplayEngine.add` to store them
(`Ring` says where, `RowStore` writes). Flow of a sample: the view draws slots (`Draws`, `Priorities`) and asks
:meth:`ReplayEngine.read`.
"""

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ding.data.columns import SchemaError, row_list, take
from ding.data.replay.checks import positive_int, storage_options
from ding.data.replay.draws import Draws
from ding.data.replay.errors import BufferArgumentError, BufferClosedError, RateLimitTimeout, ReplayBufferError
from ding.data.replay.index import Ring
from ding.data.replay.limits import limiter_of
from ding.data.replay.reports import PeriodicThruputMonitor, ThruputCounters, UsedDataRemover
from ding.data.replay.rows import RowStore, copied_deeply
from ding.data.replay.updates import Rows
from ding.data.roles import StateDict, Writer
from ding.data.storage import filled_storage
from ding.data.transition_batch import TransitionBatch
from ding.utils import build_logger, get_rank

T = TypeVar("T")


class ReplayEngine:
    """What every ring buffer holds. Methods that read or change rows are called under :attr:`lock`.

    Args:
        cfg: config of the buffer.
        report_s: seconds between reports of the throughput.
        tb_logger: tensorboard writer to share; without one the engine makes (and later closes) its own.
        exp_name: folder of the experiment.
        name: name of the log file and of the tensorboard tags.
        left: called with the rows that leave the buffer, as they are read, under the lock.
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
        # Used-up elements, by slot, whose files are still to be removed.
        self._retired: dict[int, Any] = {}
        self._closed = False
        rank0 = get_rank() == 0
        self._owns_writer = rank0 and tb_logger is None
        logger, writer = build_logger(f"./{exp_name}/log/{name}", name, need_tb=self._owns_writer)
        assert logger is not None
        self.logger = logger
        self.writer: Writer | None = (tb_logger or writer) if rank0 else None
        self._monitor: PeriodicThruputMonitor | None = None
        if rank0:
            self._monitor = PeriodicThruputMonitor(name, {"seconds": report_s}, self.logger, self.writer, self.counters)

    # ------------------------------------------------------------------ life cycle

    def start(self) -> None:
        """Start to remove used data, if that is tracked."""
        if self._remover is not None:
            self._remover.start()

    def stop_removing(self) -> None:
        """Remove the used data that is queued, and end the thread that does it; :meth:`start` begins anew."""
        if self._remover is not None:
            self._remover.close()

    def close(self) -> None:
        """Remove all elements and end all threads. May be called again."""
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

    def _log_turn(self) -> None:
        self.logger.info("%s: rows of another form were pushed; all rows are kept as objects from now on", self.name)

    # ------------------------------------------------------------------ rate limit

    def limited_push(self, count: int, push: Callable[[], bool]) -> bool:
        """Push when the rate limiter admits ``count`` elements; False when it does not, or ``push`` returns that."""
        assert self.limiter is not None
        return bool(self._limited(count, self.limiter.acquire_push, self.limiter.undo_push, push, "push"))

    def limited_sample(self, count: int, sample: Callable[[], T]) -> "T | None":
        """Sample when the rate limiter admits ``count`` elements; ``None`` when it does not."""
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
        # The wait is outside of the lock: the other side has to get on meanwhile.
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
        """What was pushed, as columns or as a list, and its number of rows.

        Raises:
            BufferClosedError: the buffer was closed.
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
                    # Rows that were changed by hand: the storage says whether it takes them.
                    pass
            return data.rows(), count
        # A plain list is what the storages take for rows: a TrajBuffer is a list, too.
        return (list(data), len(data)) if isinstance(data, list) else ([data], 1)

    def add(self, rows: Rows, count: int) -> tuple[int, int]:
        """Store rows; returns the first slot, and how many of the rows (the last ones) found a slot.

        Raises:
            SchemaError: rows that do not fit. Nothing has changed then.
            OSError: the disk of rows in files is full. Nothing has changed then.
            AssertionError: used data is tracked, and an element has no ``data_id``.
        """
        placed = min(count, self.size)
        start = (self.ring.tail + count - placed) % self.size
        leaving = [] if self._left is None and self._remover is None else self._leaving(rows, count)
        if count > placed:
            rows = take(rows, slice(count - placed, count))  # type: ignore[assignment]
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
        """The rows that will leave when these come: old ones, and new ones that find no slot."""
        if self._remover is not None:
            self.check_used_data(rows, count)
        parts: list[Any] = [self.rows.read(self.ring.leaving(count))]
        if count > self.size:
            parts.append(take(rows, slice(0, count - self.size)))
        return parts

    def check_used_data(self, rows: Rows, count: int) -> None:
        """Raise an ``AssertionError`` when used data is tracked and an element has no ``data_id``."""
        if self._remover is not None:
            self._remover.check(rows if isinstance(rows, list) else row_list(rows, count))

    def _let_go(self, rows: Any) -> None:
        """These rows have left."""
        if self._left is not None:
            self._left(rows)
        if self._remover is not None:
            count = 0 if not isinstance(rows, dict) else len(next(iter(rows.values())))
            self._remover.add_all(row_list(rows, count) if isinstance(rows, dict) else rows)

    def remove(self, slots: np.ndarray, used_up: bool = False) -> None:
        """Remove the rows in these slots. The files of ``used_up`` ones stay until their slot is taken again: somebody
        who was given them now has still to read them.
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
        """Remove all rows. ``push_count`` and the random generator stay."""
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

    def read(self, slots: np.ndarray) -> Any:
        """Copies of the rows in int64 ``[N]`` slots, which count as sampled: a ``TransitionBatch``, or a list."""
        self.counters.sampled += len(slots)
        rows = self.rows.storage.read(slots) if self.rows.storage is not None else []
        return copied_deeply(rows) if self._deepcopy else rows

    def refuse(self, size: int, reason: str) -> None:
        """Log why there is no sample."""
        self.logger.info("%s gives no sample of %d: %s", self.name, size, reason)

    # ------------------------------------------------------------------ states

    def state_dict(self) -> StateDict:
        """The part of a state that all ring buffers have, as copies in memory."""
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
        """Take over a :meth:`state_dict` whose rows lay in the slots of ``ring``.

        Nothing has changed when this raises.
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
        """Check that a state has these keys and the size of the buffer, and name the errors that reading it raises.

        Raises:
            BufferArgumentError: it has not, or is damaged.
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
