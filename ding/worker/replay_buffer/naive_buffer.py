"""Replay buffers that draw uniformly."""

from typing import Any, ClassVar

import numpy as np

from ding.utils import BUFFER_REGISTRY
from ding.worker.replay_buffer._ring import RingBuffer
from ding.worker.replay_buffer._ring_config import LIMIT_CONFIG, STORAGE_CONFIG, positive_int
from ding.worker.replay_buffer.errors import BufferArgumentError, BufferConfigError


@BUFFER_REGISTRY.register("naive")
class NaiveReplayBuffer(RingBuffer):
    """A ring buffer with uniform sampling.

    *Thread safety.* ``push``, ``sample``, ``update``, ``clear``, ``count``, ``state_dict``, ``load_state_dict``,
    ``save_data`` and ``load_data`` may be called from any thread. Each is one critical section: checks, copying and
    counters of a call see one state of the buffer, and a row is never seen half written. None waits for anything but
    the lock, which ``save_data`` holds until the file is written. A call that raises leaves the buffer as it was.

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
        # Limit of samples per insert, see SampleRatioLimiter.
        "rate_limit": LIMIT_CONFIG,
    }

    def push(self, data: Any, cur_collector_envstep: int = -1) -> None:
        """Store one element, the elements of a list, or the rows of a ``TransitionBatch``.

        The oldest elements give way. Of more elements than there are slots, the last ones stay.

        Args:
            data: rows, which are copied, or objects, which are referred to.
            cur_collector_envstep: not used.

        Raises:
            SchemaError: rows that differ in fields, shapes or dtypes from those in the buffer.
            OSError: the rows lie in files, and the disk is full.
            BufferClosedError: the buffer was closed.
        """
        if self._limiter is None:
            self._push_now(data)
        else:
            self._push_limited(self._limiter, data, lambda: self._push_now(data))

    def _push_now(self, data: Any) -> bool:
        with self._lock:
            self._check_open()
            rows, count = self._rows_of(data)
            if count:
                self._push_rows(rows, count)
        return True

    def _push_unlimited(self, data: Any) -> None:
        self._push_now(data)

    def _push_rows(self, rows: Any, count: int) -> None:
        size = self._size
        used: list[Any] = []
        if self._remover is not None:
            used = self._leaving(count) + self._tracked(rows, count)[: max(0, count - size)]
        start, placed = self._place(rows, count)
        self._tail = (start + placed) % size
        self._push_count += count
        have = self._count + count
        counters = self._counters
        if have > size:
            counters.removed += have - size
            have = size
        self._count = counters.have = have
        counters.pushed += count
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
        if type(size) is not int or size < 0:
            size = self._checked_size(size)
        if size == 0:
            return []
        if self._limiter is None:
            return self._sample_now(size, sample_range, replace)
        return self._sample_limited(self._limiter, size, lambda: self._sample_now(size, sample_range, replace))

    def _sample_now(self, size: int, sample_range: "slice | None", replace: bool) -> Any:
        with self._lock:
            positions = self._uniform_positions(size, sample_range, replace)
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
        return (oldest + ranks.start + ranks.step * self._draw(len(ranks), size, replace)) % self._size

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
            if self._limiter is not None:
                self._limiter.reset()
            self._tail = self._count = 0
            if self._storage is not None:
                self._storage.close()
                self._storage = None

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything: ``data`` (columns or a list, oldest first), ``tail``, ``valid_count``, ``push_count``,
        ``replay_buffer_size`` and the state of the random generator. It may be saved with a checkpoint.

        The copy lies in memory, also that of a buffer in files; :meth:`save_data` makes none.
        """
        with self._lock:
            return self._ring_state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Become the buffer of a ``state_dict``. A state with ``data`` only pushes these elements.

        Raises:
            BufferArgumentError: the state lacks something, is damaged, or is that of a buffer of another size.
            SchemaError: its rows do not fit together. The buffer stays as it was.
        """
        if set(state_dict) == {"data"}:
            self._push_state(state_dict["data"])
            return
        self._check_state(state_dict, ("data", "tail", "valid_count", "push_count", "generator", "draw"))
        with self._lock, self._reading_state():
            self._check_open()
            tail, count = int(state_dict["tail"]), int(state_dict["valid_count"])
            if tail != count < self._size:
                raise BufferArgumentError(
                    f"the state of {self._instance_name!r} is damaged: {count} elements, but the tail is {tail}"
                )
            self._load_ring_state(state_dict, (tail - count + np.arange(count)) % self._size)


@BUFFER_REGISTRY.register("elastic")
class ElasticReplayBuffer(NaiveReplayBuffer):
    """Draws among the newest elements only, in a number that depends on the env step.

    ``cfg.set_buffer_size`` is a function from the env step to that number. It is asked at construction (step 0) and
    whenever :meth:`update` is called with an env step.

    Raises:
        BufferConfigError: ``set_buffer_size`` is missing or gives something else than a positive int.
    """

    config: ClassVar[dict[str, Any]] = {
        **NaiveReplayBuffer.config,
        "type": "elastic",
        # (callable) Env step -> number of newest elements to draw from. Required.
        "set_buffer_size": None,
    }

    def __init__(
        self,
        cfg: Any,
        tb_logger: Any = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
    ) -> None:
        size_of = cfg.get("set_buffer_size")
        if not callable(size_of):
            raise BufferConfigError(f"set_buffer_size must be a function from env steps to a size, got {size_of!r}")
        self._size_of = size_of
        self._current_size = self._size_at(0)
        super().__init__(cfg, tb_logger, exp_name, instance_name)

    def _size_at(self, envstep: int) -> int:
        return positive_int(self._size_of(envstep), f"set_buffer_size({envstep})")

    def update(self, envstep: Any) -> None:
        """Ask again how many of the newest elements to draw from."""
        size = self._size_at(int(envstep))
        with self._lock:
            self._current_size = size

    def _uniform_positions(self, size: int, sample_range: "slice | None", replace: bool) -> np.ndarray | None:
        if sample_range is not None:
            raise BufferConfigError("an elastic buffer draws among its newest elements: sample_range must be None")
        count = min(self._count, self._current_size)
        if count == self._count:
            return super()._uniform_positions(size, None, replace)
        return super()._uniform_positions(size, slice(-count, None), replace)
