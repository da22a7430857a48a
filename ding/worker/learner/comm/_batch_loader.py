"""Batches for a learner, read ahead of their use."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ding.data import TransitionBatch
from ding.data.exchange import ChunkBroken, ChunkMissing, DataPlane
from ding.worker._packed import unpack_batch
from ding.worker.learner.comm._row_reader import RowReader

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


class BatchLoader:
    """An iterator over batches, read by a thread from the chunks that a coordinator names.

    ``demand`` says how many more batches there is room for; ``offer`` takes them. A batch that comes twice is taken
    once; one of which a chunk cannot be read is left out, and the chunk is reported.

    Concurrency: one thread iterates, any thread may call the rest. Nothing polls.

    Args:
        plane: where the chunks lie.
        batch_size: rows of a batch.
        prefetch_batches: how many batches may be under way or wait.
        cache_rows: rows that the buffer of the coordinator holds, as a hint for how many to keep in memory.
        cache_bytes: how much memory these may take; 0 keeps none.
        changed: called whenever something happened that the coordinator may want to hear of.
        repeat_last: a batch of which a chunk cannot be read is replaced by the one before it, for processes that must
            have equally many.
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
    ) -> None:
        if prefetch_batches < 1:
            raise ValueError(f"prefetch_batches must be at least 1, got {prefetch_batches}")
        self.batch_size = batch_size
        self._prefetch = prefetch_batches
        self._reader = RowReader(plane, cache_rows, cache_bytes)
        self._tell = changed
        self._moved = threading.Condition()
        self._waiting: deque[dict[str, Any]] = deque()
        self._ready: deque[TransitionBatch] = deque()
        self._reading = 0
        self._received = 0
        self._loaded = 0
        self._broken: list[str] = []
        self._error: BaseException | None = None
        self._repeat_last = repeat_last
        self._last: TransitionBatch | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="batch-loader", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ the side of the coordinator

    def demand(self, train_iter: int) -> list[dict[str, int]]:
        """``{'batch_size', 'cur_learner_iter'}`` of each batch that there is room for."""
        with self._moved:
            held = len(self._waiting) + self._reading + len(self._ready)
            return [
                {"batch_size": self.batch_size, "cur_learner_iter": train_iter + position}
                for position in range(held, self._prefetch)
            ]

    @property
    def room(self) -> int:
        """How many more batches there is room for."""
        return self._prefetch - len(self._waiting) - self._reading - len(self._ready)

    def offer(self, batches: Sequence[Mapping[str, Any]]) -> None:
        """Take batches in the order of their running numbers.

        Raises:
            ValueError: one has not the form or the size that was asked for.
        """
        checked = [unpack_batch(batch) for batch in batches]
        for batch in checked:
            if len(batch["rows"]) != self.batch_size:
                raise ValueError(f"a batch needs {self.batch_size} rows, found {len(batch['rows'])}")
        with self._moved:
            for batch in checked:
                if batch["batch"] > self._received:
                    self._received = batch["batch"]
                    self._waiting.append(batch)
            self._moved.notify_all()

    @property
    def loaded(self) -> int:
        """Running number of the last batch of which the chunks are no longer needed."""
        return self._loaded

    def take_broken(self) -> list[str]:
        """Chunks that could not be read since this was last asked."""
        with self._moved:
            broken, self._broken = self._broken, []
            return broken

    # ------------------------------------------------------------------ the side of the learner

    def __iter__(self) -> "BatchLoader":
        return self

    def __next__(self) -> TransitionBatch | None:
        """The next batch; ``None`` after ``close``.

        Raises:
            BaseException: what reading failed with, other than chunks that are gone or broken.
        """
        with self._moved:
            self._moved.wait_for(lambda: self._ready or self._closed or self._error)
            if self._closed:
                return None
            if not self._ready and self._error is not None:
                raise self._error
            batch = self._ready.popleft()
            self._moved.notify_all()
        self._tell()
        return batch

    def close(self) -> None:
        """End the thread and wake all. May be called again."""
        with self._moved:
            self._closed = True
            self._waiting.clear()
            self._ready.clear()
            self._moved.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    # ------------------------------------------------------------------ reading

    def _run(self) -> None:
        try:
            while (message := self._next_message()) is not None:
                batch = self._read(message)
                if self._repeat_last:
                    batch = self._last = batch or self._last
                with self._moved:
                    self._reading = 0
                    self._loaded = message["batch"]
                    if batch is not None and not self._closed:
                        self._ready.append(batch)
                    self._moved.notify_all()
                if batch is None:
                    self._tell()
        except BaseException as error:  # noqa: BLE001 - next() raises it in the learner
            with self._moved:
                self._error = error
                self._moved.notify_all()

    def _next_message(self) -> dict[str, Any] | None:
        with self._moved:
            self._moved.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            self._reading = 1
            return self._waiting.popleft()

    def _read(self, message: Mapping[str, Any]) -> TransitionBatch | None:
        try:
            columns = self._reader.read(message["chunks"], message["rows"])
        except (ChunkMissing, ChunkBroken) as error:
            chunk = _unreadable(self._reader, message["chunks"])
            log.warning("batch %s is left out: %s", message["batch"], error)
            with self._moved:
                self._broken.extend(chunk)
            return None
        for key, (name, dtype) in _COLUMNS.items():
            if message.get(key) is not None:
                columns[name] = np.asarray(message[key], dtype=dtype)
        return TransitionBatch.trusted(columns, len(message["rows"]))


def _unreadable(reader: RowReader, chunks: Sequence[str]) -> list[str]:
    """Those of the chunks that cannot be read."""
    return [chunk for chunk in chunks if not reader.can_read(chunk)]
