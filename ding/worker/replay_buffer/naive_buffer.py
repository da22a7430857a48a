"""Replay buffers that draw uniformly."""

from typing import Any, ClassVar

import numpy as np

from ding.utils import BUFFER_REGISTRY
from ding.worker.replay_buffer._ring import STORAGE_CONFIG, RingBuffer


@BUFFER_REGISTRY.register("naive")
class NaiveReplayBuffer(RingBuffer):
    """A ring buffer with uniform sampling.

    *Thread safety.* ``push``, ``sample``, ``update``, ``clear``, ``count``, ``state_dict``, ``load_state_dict``,
    ``save_data`` and ``load_data`` may be called from any thread. Each is one critical section: checks, copying and
    counters of a call see one state of the buffer, and a row is never seen half written. None waits for anything but
    the lock. A call that raises leaves the buffer as it was.

    *Rows.* What is pushed is copied into columns when the rows are dicts of one schema, and kept as objects otherwise
    (see :mod:`ding.data.storage`). What is sampled are copies: who changes them does not change the buffer.

    Args:
        cfg: config; missing keys take the defaults.
        tb_logger: tensorboard writer to share; without one the buffer makes (and later closes) its own.
        exp_name: folder of the experiment.
        instance_name: name of the log file and of the tensorboard tags.
    """

    config: ClassVar[dict[str, Any]] = {
        "type": "naive",
        # (int) Number of elements that the ring holds.
        "replay_buffer_size": 10000,
        # (bool) Deep-copy what is pushed and what is sampled. Rows in columns are copied anyway.
        "deepcopy": False,
        # (bool) Remove the file ``data_id`` of every element that leaves the buffer.
        "enable_track_used_data": False,
        # (float) Seconds between reports of the throughput.
        "periodic_thruput_seconds": 60,
        "storage": STORAGE_CONFIG,
    }

    def push(self, data: Any, cur_collector_envstep: int = -1) -> None:
        """Store one element, the elements of a list, or the rows of a ``TransitionBatch``.

        The oldest elements give way. Of more elements than there are slots, the last ones stay.

        Args:
            data: rows, which are copied, or objects, which are referred to.
            cur_collector_envstep: not used.

        Raises:
            SchemaError: rows that differ in fields, shapes or dtypes from those in the buffer.
            BufferClosedError: the buffer was closed.
        """
        with self._lock:
            self._check_open()
            rows, count = self._rows_of(data)
            if count:
                self._push_rows(rows, count)

    def _push_rows(self, rows: Any, count: int) -> None:
        size = self._size
        used = self._leaving(count) if self._remover is not None else ()
        start, placed = self._place(rows, count)
        removed = max(0, self._count + placed - size)
        self._tail = (start + placed) % size
        self._count = min(size, self._count + placed)
        self._push_count += count
        counters = self._counters
        counters.pushed += count
        counters.removed += removed
        counters.have = self._count
        if used:
            self._use_up(used)

    def _leaving(self, count: int) -> list[Any]:
        """The elements that give way to ``count`` more, oldest first."""
        leaving = max(0, self._count + count - self._size)
        if not leaving or self._storage is None:
            return []
        return list(self._storage.read(self._held_positions()[:leaving]))

    def sample(
        self, size: int, cur_learner_iter: int, sample_range: "slice | None" = None, replace: bool = False
    ) -> Any:
        """Draw elements uniformly.

        Args:
            size: number of elements.
            cur_learner_iter: not used.
            sample_range: draw among these only: a slice over the elements from the oldest (0) to the newest (-1).
            replace: elements may repeat.

        Returns:
            A ``TransitionBatch`` (rows in columns) or a list (objects) of ``size`` copies; ``[]`` for size 0; ``None``
            when there are not enough elements, which is logged.

        Raises:
            BufferArgumentError: a negative size, or a range that selects nothing.
        """
        with self._lock:
            if type(size) is not int or size < 0:
                self._check_size(size)
            if size == 0:
                return []
            positions = self._uniform_positions(int(size), sample_range, replace)
            if positions is None:
                return None
            self._counters.sampled += size
            sampled = self._storage.read(positions)  # type: ignore[union-attr]
            return self._copy_out(sampled) if self._deepcopy else sampled

    def _uniform_positions(self, size: int, sample_range: "slice | None", replace: bool) -> np.ndarray | None:
        count = self._count
        if count == 0 or (count < size and not replace):
            self._refuse(size, f"it holds {count} elements")
            return None
        if sample_range is None:
            # All slots below `count` are held: before the first wrap by the first pushes, later all of them.
            return self._draw(count, size, replace)
        ranks = self._ranks(sample_range, count)
        if len(ranks) < size and not replace:
            self._refuse(size, f"{sample_range} selects {len(ranks)} of {count} elements")
            return None
        oldest = self._tail if count == self._size else 0
        return (oldest + ranks.start + self._draw(len(ranks), size, replace)) % self._size

    def update(self, info: Any) -> None:
        """Nothing to update; logged once, for this buffer keeps no priorities."""
        if not self._warned:
            self._warned = True
            self._logger.warning("%s has nothing to update: it is no prioritised buffer", self._instance_name)

    _warned = False

    def clear(self) -> None:
        """Remove all elements. ``push_count`` and the state of the random generator stay."""
        with self._lock:
            if self._remover is not None and self._count:
                self._use_up(self._leaving(self._size))
            self._counters.removed += self._count
            self._counters.have = 0
            self._tail = self._count = 0
            if self._storage is not None:
                self._storage.close()
                self._storage = None

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything: ``data`` (columns or a list, oldest first), ``tail``, ``valid_count``, ``push_count``,
        ``replay_buffer_size`` and the state of the random generator. It may be saved with a checkpoint.
        """
        with self._lock:
            return self._ring_state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Become the buffer of a ``state_dict``. A state with ``data`` only pushes these elements.

        Raises:
            BufferArgumentError: the state lacks something, or is that of a buffer of another size.
        """
        if set(state_dict) == {"data"}:
            self.push(state_dict["data"], 0)
            return
        self._check_state(state_dict, ("data", "tail", "valid_count", "push_count", "generator", "draw"))
        with self._lock:
            self._check_open()
            tail, count = int(state_dict["tail"]), int(state_dict["valid_count"])
            self._load_ring_state(state_dict, (tail - count + np.arange(count)) % self._size)
