"""Replay buffers with uniform sampling."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ding.data.replay.checks import STORAGE_CONFIG, places, positive_int, sample_size
from ding.data.replay.errors import BufferArgumentError, BufferConfigError
from ding.data.replay.index import Ring, Rows
from ding.data.replay.limits import LIMIT_CONFIG
from ding.data.roles import Samples, StateDict, Writer
from ding.utils import BUFFER_REGISTRY
from ding.worker.replay_buffer.base_buffer import takes_state_dict
from ding.worker.replay_buffer.ring_buffer import RingBuffer


@BUFFER_REGISTRY.register("naive")
class NaiveReplayBuffer(RingBuffer):
    """Ring buffer with uniform sampling.

    *Thread safety.* ``push``, ``sample``, ``update``, ``clear``, ``count``, ``state_dict``, ``load_state_dict``,
    ``save_data`` and ``load_data`` may be called from any thread. Each is one critical section, so a call sees one
    state of the buffer, and never a partially written row. Calls block only on the lock, which ``save_data`` holds
    until the file is written. A call that raises leaves the buffer unchanged.

    *Rows.* Pushed rows are copied into columns if they are dicts of one schema, and kept as objects otherwise (see
    :mod:`ding.data.storage`). Samples are copies, so modifying them does not change the buffer.

    Args:
        cfg: Config; missing keys take the defaults.
        tb_logger: TensorBoard writer to share; ``None``: create one and close it in :meth:`close`.
        exp_name: Experiment directory.
        instance_name: Name of the log file and of the TensorBoard tags.
    """

    config: ClassVar[dict[str, Any]] = {
        "type": "naive",
        # (int) Capacity of the ring.
        "replay_buffer_size": 10000,
        # (bool) Deep-copy pushed and sampled elements. Rows in columns are copied anyway.
        "deepcopy": False,
        # (bool) Delete the file ``data_id`` of every element that leaves the buffer.
        "enable_track_used_data": False,
        # (float) Seconds between reports of the throughput.
        "periodic_thruput_seconds": 60,
        "storage": STORAGE_CONFIG,
        # Limit of samples per insert, see SampleRatioLimiter.
        "rate_limit": LIMIT_CONFIG,
    }

    def _report_seconds(self) -> float:
        return float(self._cfg["periodic_thruput_seconds"])

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
        """Store one element, the elements of a list, or the rows of a ``TransitionBatch``.

        The oldest elements are overwritten. If there are more elements than slots, the last ones are kept.

        Args:
            data: Rows, which are copied, or objects, which are stored by reference.
            cur_collector_envstep: Ignored.

        Raises:
            SchemaError: The rows differ in fields, shapes or dtypes from those in the buffer.
            OSError: The rows are stored in files, and the disk is full.
            BufferClosedError: The buffer was closed.
        """
        if self.engine.limiter is None:
            self._insert(data)
        else:
            self.engine.limited_push(self._number_of(data), lambda: self._insert(data))

    def _insert(self, data: object) -> bool:
        with self.engine.lock:
            rows, count = self.engine.received(data)
            if count:
                self._add(rows, count)
        return True

    def _add(self, rows: Rows, count: int) -> None:
        """Store one or more rows."""
        self.engine.add(rows, count)

    def sample(
        self, size: int, cur_learner_iter: int, sample_range: "slice | None" = None, replace: bool = False
    ) -> Samples | None:
        """Sample elements uniformly.

        Args:
            size: Number of elements.
            cur_learner_iter: Ignored.
            sample_range: Restrict sampling to a slice of the elements, from the oldest (0) to the newest (-1).
            replace: Sample with replacement.

        Returns:
            A ``TransitionBatch`` (rows in columns) or a list (objects) with ``size`` copies; ``[]`` for size 0;
            ``None`` if there are not enough elements, which is logged.

        Raises:
            BufferArgumentError: The size is negative, or the range selects no elements.
        """
        size = sample_size(size)
        if size == 0:
            return []
        if self.engine.limiter is None:
            return self._sample(size, sample_range, replace)
        return self.engine.limited_sample(size, lambda: self._sample(size, sample_range, replace))

    def _sample(self, size: int, sample_range: "slice | None", replace: bool) -> Samples | None:
        with self.engine.lock:
            slots = self._draw(size, sample_range, replace)
            return None if slots is None else self.engine.read(slots)

    def _draw(self, size: int, sample_range: "slice | None", replace: bool) -> np.ndarray | None:
        """Return int64 ``[size]`` slots; ``None`` (logged) if there are not enough elements."""
        engine = self.engine
        count = engine.ring.count
        if count == 0 or (count < size and not replace):
            engine.refuse(size, f"it holds {count} elements")
            return None
        if sample_range is None:
            # Slots below `count` are occupied: before the first wrap by the first pushes, later all slots.
            return engine.draws.uniform(count, size, replace)
        among = places(sample_range, count)
        if len(among) < size and not replace:
            engine.refuse(size, f"{sample_range} selects {len(among)} of {count} elements")
            return None
        drawn = engine.draws.uniform(len(among), size, replace)
        return (engine.ring.head + among.start + among.step * drawn) % engine.size

    def update(self, info: object) -> None:
        """Do nothing, because this buffer has no priorities; logged once."""
        if not self._warned:
            self._warned = True
            self.engine.logger.warning("%s has nothing to update: it is no prioritised buffer", self.engine.name)

    _warned = False

    def clear(self) -> None:
        """Remove all elements. ``push_count`` and the state of the random generator are kept."""
        with self.engine.lock:
            self.engine.clear()

    def state_dict(self) -> StateDict:
        """Return a copy of the state, which may be saved with a checkpoint.

        It contains ``data`` (columns or a list, oldest first), ``tail``, ``valid_count``, ``push_count``,
        ``replay_buffer_size`` and the state of the random generator. Rows stored in files are read into memory;
        :meth:`save_data` avoids this.
        """
        with self.engine.lock:
            return self.engine.state_dict()

    @takes_state_dict
    def load_state_dict(self, _state_dict: StateDict) -> None:
        """Restore a ``state_dict``. If the state contains only ``data``, push these elements.

        Raises:
            BufferArgumentError: The state is incomplete or damaged, or belongs to a buffer of another size.
            SchemaError: The rows have different schemas. The buffer is unchanged.
        """
        if set(_state_dict) == {"data"}:
            self._insert_state(_state_dict["data"])
            return
        engine = self.engine
        with engine.reading_state(_state_dict, ("data", "tail", "valid_count", "push_count", "generator")):
            tail, count = int(_state_dict["tail"]), int(_state_dict["valid_count"])
            if tail != count < engine.size:
                raise BufferArgumentError(
                    f"the state of {engine.name!r} is damaged: {count} elements, but the tail is {tail}"
                )
            engine.load_state_dict(_state_dict, Ring.restored(engine.size, tail, count, int(_state_dict["push_count"])))


@BUFFER_REGISTRY.register("elastic")
class ElasticReplayBuffer(NaiveReplayBuffer):
    """Samples only among the newest elements; their number depends on the env step.

    ``cfg.set_buffer_size`` maps the env step to that number. It is called at construction (step 0) and by every
    :meth:`update` with an env step.

    Raises:
        BufferConfigError: ``set_buffer_size`` is missing or returns no positive int.
    """

    config: ClassVar[dict[str, Any]] = {
        **NaiveReplayBuffer.config,
        "type": "elastic",
        # (callable) Env step -> number of newest elements to sample from. Required.
        "set_buffer_size": None,
    }

    def __init__(
        self,
        cfg: Mapping[str, Any],
        tb_logger: Writer | None = None,
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
        """Update the number of newest elements to sample from."""
        size = self._size_at(int(envstep))
        with self.engine.lock:
            self._current_size = size

    def _draw(self, size: int, sample_range: "slice | None", replace: bool) -> np.ndarray | None:
        if sample_range is not None:
            raise BufferConfigError("an elastic buffer draws among its newest elements: sample_range must be None")
        count = self.engine.ring.count
        newest = None if count <= self._current_size else slice(-self._current_size, None)
        return super()._draw(size, newest, replace)
