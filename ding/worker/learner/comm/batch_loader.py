"""Prefetching of a learner's batches (``BatchLoader``) from many chunks (``RowCache``)."""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ding.data import SchemaError, TransitionBatch
from ding.data.columns import Columns, Leaf, concat
from ding.parallel.messages import GROUP_ROWS, joined_rows, unpack_batches
from ding.parallel.planes import ChunkBroken, ChunkMissing, DataPlane
from ding.utils.nested import iter_leaves, map_leaves
from ding.utils.rows import put, take

log = logging.getLogger(__name__)

_COLUMNS = {
    "unique_id": ("replay_unique_id", np.int64),
    "buffer_idx": ("replay_buffer_idx", np.int64),
    "priority": ("priority", np.float64),
    "staleness": ("staleness", np.int64),
    "use": ("use", np.int64),
    "IS": ("IS", np.float64),
}
_JOIN_S = 5.0
# Limit of the prefetched rows, so that messages about large batches stay small.
_MAX_ROWS_AHEAD = 1 << 16
# Share of the requested rows to cache, and minimum number.
_SPARE = 1.25
_LEAST_ROWS = 1024
# Assumed size of an object, which has no size of its own.
_OBJECT_BYTES = 1024


class BatchLoader:
    """Iterator over batches that a thread reads from the chunks named by a coordinator.

    ``demand`` returns the requests for free slots; ``offer`` accepts batches. Duplicate batches are ignored; a batch
    with an unreadable chunk is skipped, and the chunk is reported.

    Batches are read in groups, and threads are woken at most once per group, because waking a thread costs more than
    reading a small batch.

    Concurrency: one thread iterates, any thread may call the rest. Nothing polls.

    Args:
        plane: Plane that stores the chunks.
        batch_size: Rows of a batch.
        prefetch_batches: Number of batches that may be requested or waiting.
        cache_rows: Capacity of the coordinator's buffer in rows, as a hint for the size of the cache.
        cache_bytes: Maximum memory of the cache in bytes; 0 disables it.
        changed: Called on news for the coordinator: half of the batches are used, or a chunk cannot be read.
        repeat_last: Replace a batch with an unreadable chunk by the previous one, for processes that need equal numbers
            of batches.
        prefetch_s: If the learner uses more than ``prefetch_batches`` batches in this time, that many are requested.
        publish: For on-policy learning: batches are not prefetched. Called when the learner waits for the next batch,
            so that its newest policy collects it; batches may be larger than ``batch_size``.
    """

    def __init__(
        self,
        plane: DataPlane,
        batch_size: int,
        prefetch_batches: int,
        cache_rows: int = 0,
        cache_bytes: int = 0,
        changed: Callable[[], None] = lambda: None,
        repeat_last: bool = False,
        prefetch_s: float = 0.0,
        publish: Callable[[], None] | None = None,
    ) -> None:
        if prefetch_batches < 1:
            raise ValueError(f"prefetch_batches must be at least 1, got {prefetch_batches}")
        self.batch_size = batch_size
        # Number of batches per read. Two groups may be in memory; for the others only row indices are stored.
        self._group = max(1, GROUP_ROWS // batch_size)
        self._least_ahead = self._ahead = prefetch_batches
        self._most_ahead = max(prefetch_batches, _MAX_ROWS_AHEAD // batch_size)
        self._pace = _Pace(prefetch_s)
        self._publish = publish
        self._wanted = publish is None
        if publish is not None:
            self._least_ahead = self._ahead = self._most_ahead = self._group = 1
        self._plane = plane
        self._cache = RowCache(plane, cache_rows, cache_bytes)
        self._tell = changed
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)  # for the reading thread: there are messages to read
        self._filled = threading.Condition(self._lock)  # for the learner: there are batches to train on
        self._waiting: deque[dict[str, Any]] = deque()
        self._ready: deque[TransitionBatch] = deque()
        self._reading = 0
        self._used = 0
        self._received = 0
        self._loaded = 0
        self._broken: list[str] = []
        self._error: BaseException | None = None
        self._repeat_last = repeat_last
        self._last: TransitionBatch | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="batch-loader", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ coordinator side

    def demand(self, train_iter: int) -> list[dict[str, int]]:
        """Return ``{'batch_size', 'cur_learner_iter'}`` for each free slot."""
        with self._lock:
            self._ahead = min(max(self._least_ahead, self._pace.batches(self._used)), self._most_ahead)
            return [
                {"batch_size": self.batch_size, "cur_learner_iter": train_iter + position}
                for position in range(self._ahead - self.free_slots, self._ahead)
            ]

    @property
    def free_slots(self) -> int:
        """Return the number of free slots."""
        if not self._wanted:
            return 0
        return max(0, self._ahead - len(self._waiting) - self._reading - len(self._ready))

    @property
    def below_watermark(self) -> bool:
        """Return whether at most half of the allowed batches are left."""
        return self.free_slots * 2 >= self._ahead

    def offer(self, batches: Sequence[Mapping[str, Any]]) -> None:
        """Accept batches in the order of their running numbers.

        Raises:
            ValueError: A batch is malformed or has another size than requested.
        """
        checked = unpack_batches(batches)
        for batch in checked:
            size = len(batch["rows"])
            if size != self.batch_size and (self._publish is None or size < self.batch_size):
                raise ValueError(f"a batch needs {self.batch_size} rows, found {len(batch['rows'])}")
        with self._lock:
            for batch in checked:
                if batch["batch"] > self._received:
                    self._received = batch["batch"]
                    self._waiting.append(batch)
            if self._may_read():
                self._arrived.notify()

    @property
    def loaded(self) -> int:
        """Running number of the last batch whose chunks are no longer needed."""
        return self._loaded

    def take_broken(self) -> list[str]:
        """Return the unreadable chunks found since the last call."""
        with self._lock:
            broken, self._broken = self._broken, []
            return broken

    # ------------------------------------------------------------------ learner side

    def __iter__(self) -> "BatchLoader":
        return self

    def __next__(self) -> TransitionBatch | None:
        """Return the next batch; ``None`` after ``close``.

        Raises:
            BaseException: A read error other than missing or broken chunks.
        """
        if self._publish is not None:
            self._publish()
            with self._lock:
                self._wanted = True
            self._tell()
        with self._lock:
            if not self._ready:
                self._filled.wait_for(lambda: self._ready or self._closed or self._error)
            if self._closed:
                return None
            if not self._ready and self._error is not None:
                raise self._error
            was_below_watermark = self.below_watermark
            batch = self._ready.popleft()
            self._used += 1
            self._wanted = self._publish is None
            if self._may_read():
                self._arrived.notify()
            tell = self.below_watermark and not was_below_watermark
        if tell:
            self._tell()
        return batch

    def close(self) -> None:
        """End the thread and wake all blocked callers. Repeated calls have no effect."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            self._ready.clear()
            self._arrived.notify_all()
            self._filled.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    # ------------------------------------------------------------------ reading

    def _may_read(self) -> bool:
        return bool(self._waiting) and len(self._ready) <= self._group

    def _run(self) -> None:
        try:
            while messages := self._next_messages():
                found = self._read_group(messages)
                batches = self._repeated(found) if self._repeat_last else [one for one in found if one is not None]
                with self._lock:
                    self._reading = 0
                    self._loaded = messages[-1]["batch"]
                    if not self._closed:
                        self._ready.extend(batches)
                    self._filled.notify_all()
                if any(one is None for one in found):
                    self._tell()
        except BaseException as error:  # noqa: BLE001 - next() raises it in the learner
            with self._lock:
                self._error = error
                self._filled.notify_all()

    def _next_messages(self) -> list[dict[str, Any]]:
        """Return the messages of the next group; empty after ``close``."""
        with self._lock:
            self._arrived.wait_for(lambda: self._closed or self._may_read())
            messages = [self._waiting.popleft() for _ in range(min(self._group, len(self._waiting)))]
            self._reading = len(messages)
            return messages

    def _repeated(self, found: Sequence[TransitionBatch | None]) -> list[TransitionBatch]:
        """Replace each unreadable batch by the one before it."""
        batches = []
        for one in found:
            self._last = self._last if one is None else one
            if self._last is not None:
                batches.append(self._last)
        return batches

    def _read_group(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[TransitionBatch | None]:
        """Return the batches of these messages, ``None`` for each unreadable one."""
        try:
            return self._batches_of(messages)
        except (ChunkMissing, ChunkBroken) as error:
            if len(messages) > 1:
                return [batch for message in messages for batch in self._read_group([message])]
            broken = _unreadable(self._plane, messages[0])
            log.warning("batch %s is left out: %s", messages[0]["batch"], error)
            with self._lock:
                self._broken.extend(broken)
            return [None]

    def _batches_of(self, messages: Sequence[Mapping[str, Any]]) -> list[TransitionBatch]:
        """Return the batches of these messages, cut from columns of a single read."""
        for message in messages:
            if message["rows"][:, 0].max() >= len(message["chunks"]):
                raise IndexError(f"batch {message['batch']} names chunks that it does not list")
        read = self._cache.read(*joined_rows(messages))
        begin, batches = 0, []
        for message in messages:
            size = len(message["rows"])
            columns = map_leaves(partial(_part, begin, size), read)
            begin += size
            for key, (name, dtype) in _COLUMNS.items():
                if message.get(key) is not None:
                    columns[name] = np.asarray(message[key], dtype=dtype)
            batches.append(TransitionBatch.unchecked(columns, size))
        return batches


class _Pace:
    """Measures the number of batches used in a time span.

    Args:
        seconds: Length of the time span.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = time.monotonic()
        self._used = 0
        self._per_s = 0.0

    def batches(self, used: int) -> int:
        """Return the number of batches in the span, given the total ``used`` so far."""
        elapsed = time.monotonic() - self._since
        if elapsed >= self._seconds:
            self._per_s = (used - self._used) / elapsed if elapsed else 0.0
            self._since, self._used = time.monotonic(), used
        return int(self._per_s * self._seconds)


def _part(begin: int, size: int, leaf: Leaf) -> Leaf:
    return leaf[begin : begin + size]


def _unreadable(plane: DataPlane, message: Mapping[str, Any]) -> list[str]:
    """Return the unreadable chunks of a batch."""
    broken = []
    for position in np.unique(message["rows"][:, 0]).tolist():
        chunk = message["chunks"][position]
        try:
            plane.get(chunk)
        except (ChunkMissing, ChunkBroken):
            broken.append(chunk)
    return broken


class RowCache:
    """Reads rows of chunks through a copy in memory, the only cache of chunks. One thread at a time.

    A prioritised or uniform sample touches about as many chunks as it has rows, and reading each from its file costs
    several Python calls per chunk and column. Chunks are therefore copied once into large ring columns, and a batch
    takes one indexing operation per column.

    Args:
        plane: Plane that stores the chunks.
        rows: Number of rows to keep available; the cache holds a quarter more.
        max_bytes: Maximum memory in bytes; if it is too small, rows are read from the plane each time.
    """

    def __init__(self, plane: DataPlane, rows: int = 0, max_bytes: int = 0) -> None:
        self._plane = plane
        self._rows = max(_LEAST_ROWS, int(rows * _SPARE))
        self._max_bytes = max_bytes
        self._ring: dict[str, Any] | None = None
        self._schema: list[object] = []
        self._off = max_bytes <= 0
        # First row and number of rows of each chunk in the ring, oldest first.
        self._places: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._tail = 0

    def read(self, chunks: Sequence[str], rows: npt.ArrayLike) -> dict[str, Any]:
        """Return columns with one entry per entry of ``rows``, in newly allocated memory.

        Args:
            chunks: Chunk ids.
            rows: int64 ``[B, 2]``: position in ``chunks``, row within the chunk.

        Raises:
            ChunkMissing, ChunkBroken: A chunk cannot be read.
            IndexError: A position or a row is out of range.
            SchemaError: The chunks have different fields.
        """
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1, 2)
        if not len(wanted):
            return {}
        if wanted.min() < 0 or wanted[:, 0].max() >= len(chunks):
            raise IndexError(f"rows name chunk positions {wanted[:, 0].min()} to {wanted[:, 0].max()} of {len(chunks)}")
        # Rows without space in the ring are used here and read again next time.
        extra: dict[str, TransitionBatch] = {}
        if not self._off:
            for chunk in chunks:
                if chunk not in self._places:
                    batch = self._plane.get(chunk)
                    if not self._keep(chunk, batch):
                        extra[chunk] = batch
                        break
        # Copying one chunk may have evicted another.
        found = [self._places.get(chunk) for chunk in chunks]
        if self._ring is None or None in found:
            return self._read_each(chunks, wanted, extra)
        places = np.array(found, dtype=np.int64)[wanted[:, 0]]
        if (wanted[:, 1] >= places[:, 1]).any():
            raise IndexError("a batch names rows that its chunks do not have")
        picked = take(self._ring, places[:, 0] + wanted[:, 1])
        return dict(picked)

    def _read_each(
        self, chunks: Sequence[str], wanted: np.ndarray, extra: "dict[str, TransitionBatch]"
    ) -> dict[str, Any]:
        """Read chunk by chunk; the time grows with the number of chunks."""
        # Stable sort: the rows of a chunk keep the requested order.
        order = np.argsort(wanted[:, 0], kind="stable")
        positions, within = wanted[order].T
        parts: list[Columns] = []
        for position, begin in zip(*np.unique(positions, return_index=True)):
            chunk, here = chunks[position], within[begin : np.searchsorted(positions, position, "right")]
            place = self._places.get(chunk)
            if place is not None and self._ring is not None:
                columns, count = take(self._ring, slice(place[0], place[0] + place[1])), place[1]
            else:
                batch = extra.get(chunk) or self._plane.get(chunk)
                columns, count = batch.columns, len(batch)
            if here.max() >= count:
                raise IndexError(f"row {here.max()} of a chunk of {count} rows")
            parts.append(take(columns, here))
        back = take(_joined(parts), np.argsort(order))
        return dict(back)

    # ------------------------------------------------------------------ the ring

    def _keep(self, chunk: str, batch: TransitionBatch) -> bool:
        """Copy a chunk into the ring; return False if that is not possible."""
        columns, count = batch.columns, len(batch)
        if self._ring is None and not self._make_ring(columns, count):
            return False
        if count > self._rows or _schema(columns) != self._schema:
            return False
        if self._tail + count > self._rows:
            # Evict the chunks behind the tail, too: they are the oldest, and ``_push_out`` relies on their order.
            self._push_out(self._tail, self._rows)
            self._tail = 0
        begin, end = self._tail, self._tail + count
        self._push_out(begin, end)
        put(self._ring or {}, slice(begin, end), columns)
        self._places[chunk] = (begin, count)
        self._tail = end
        return True

    def _make_ring(self, columns: dict[str, Any], count: int) -> bool:
        row_bytes = sum(
            _OBJECT_BYTES if isinstance(leaf, list) else leaf.nbytes / count for _, leaf in iter_leaves(columns)
        )
        if row_bytes * self._rows > self._max_bytes:
            log.info(
                "%d rows of %d bytes would take more than %d MB; they are read from their files each time",
                self._rows, row_bytes, self._max_bytes >> 20,
            )  # fmt: skip
            self._off = True
            return False
        self._schema = _schema(columns)
        self._ring = map_leaves(self._empty, columns)
        return True

    def _empty(self, leaf: Leaf) -> Leaf:
        if isinstance(leaf, list):
            return [None] * self._rows
        shape = (self._rows, *leaf.shape[1:])
        return torch.empty(shape, dtype=leaf.dtype) if isinstance(leaf, torch.Tensor) else np.empty(shape, leaf.dtype)

    def _push_out(self, begin: int, end: int) -> None:
        """Evict the chunks within ``[begin, end)``: the oldest ones, as the ring is filled in order."""
        over = []
        for chunk, (start, count) in self._places.items():
            if start < end and begin < start + count:
                over.append(chunk)
            elif over or start >= end:
                break
        for chunk in over:
            del self._places[chunk]


def _joined(parts: list[Columns]) -> Columns:
    try:
        return concat(parts)
    except SchemaError as error:
        raise SchemaError(
            f"{error}: these chunks cannot be learned from together. A run whose chunks another version wrote cannot "
            "be resumed; start a new one from one of its checkpoints with --load-path"
        ) from error


def _schema(columns: Columns) -> list[object]:
    """Return path, kind, dtype and row shape of each leaf."""
    return [
        (path, type(leaf)) if isinstance(leaf, list) else (path, type(leaf), leaf.dtype, tuple(leaf.shape[1:]))
        for path, leaf in iter_leaves(columns)
    ]
