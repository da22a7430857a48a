"""Replay buffers that draw uniformly."""

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

    def _report_seconds(self) -> float:
        return float(self._cfg["periodic_thruput_seconds"])

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
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
        """Store rows, of which there is at least one."""
        self.engine.add(rows, count)

    def sample(
        self, size: int, cur_learner_iter: int, sample_range: "slice | None" = None, replace: bool = False
    ) -> Samples | None:
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
        """int64 ``[size]`` slots; ``None`` (logged) when there are not enough elements."""
        engine = self.engine
        count = engine.ring.count
        if count == 0 or (count < size and not replace):
            engine.refuse(size, f"it holds {count} elements")
            return None
        if sample_range is None:
            # All slots below `count` are held: before the first wrap by the first pushes, later all of them.
            return engine.draws.uniform(count, size, replace)
        among = places(sample_range, count)
        if len(among) < size and not replace:
            engine.refuse(size, f"{sample_range} selects {len(among)} of {count} elements")
            return None
        drawn = engine.draws.uniform(len(among), size, replace)
        return (engine.ring.head + among.start + among.step * drawn) % engine.size

    def update(self, info: object) -> None:
        """Nothing to update; logged once, for this buffer keeps no priorities."""
        if not self._warned:
            self._warned = True
            self.engine.logger.warning("%s has nothing to update: it is no prioritised buffer", self.engine.name)

    _warned = False

    def clear(self) -> None:
        """Remove all elements. ``push_count`` and the state of the random generator stay."""
        with self.engine.lock:
            self.engine.clear()

    def state_dict(self) -> StateDict:
        """A copy of everything: ``data`` (columns or a list, oldest first), ``tail``, ``valid_count``, ``push_count``,
        ``replay_buffer_size`` and the state of the random generator. It may be saved with a checkpoint.

        The copy lies in memory, also that of a buffer in files; :meth:`save_data` makes none.
        """
        with self.engine.lock:
            return self.engine.state_dict()

    @takes_state_dict
    def load_state_dict(self, _state_dict: StateDict) -> None:
        """Become the buffer of a ``state_dict``. A state with ``data`` only pushes these elements.

        Raises:
            BufferArgumentError: the state lacks something, is damaged, or is that of a buffer of another size.
            SchemaError: its rows do not fit together. The buffer stays as it was.
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
    """Draws among the newest elements only, in a number that depends on the env step.

    ``cfg.set_buffer_size`` is a function from the env step to that number. It is called at construction (step 0) and
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
        """Ask again how many of the newest elements to draw from."""
        size = self._size_at(int(envstep))
        with self.engine.lock:
            self._current_size = size

    def _draw(self, size: int, sample_range: "slice | None", replace: bool) -> np.ndarray | None:
        if sample_range is not None:
            raise BufferConfigError("an elastic buffer draws among its newest elements: sample_range must be None")
        count = self.engine.ring.count
        newest = None if count <= self._current_size else slice(-self._current_size, None)
        return super()._draw(size, newest, replace)
