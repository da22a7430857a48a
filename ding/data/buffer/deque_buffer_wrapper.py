"""A ``DequeBuffer`` as the replay buffer of the serial pipeline."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from easydict import EasyDict

from ding.data.buffer._clone import clone_structure
from ding.data.buffer._core import Records
from ding.data.buffer._records import IndexArray, RecordBatch
from ding.data.buffer._save import read_contents, write_contents
from ding.data.buffer.buffer import BufferedData
from ding.data.buffer.deque_buffer import DequeBuffer
from ding.data.buffer.errors import SampleError
from ding.data.buffer.middleware import PriorityExperienceReplay
from ding.data.buffer.middleware.use_time_check import UseTimeCheck
from ding.data.roles import Samples, Writer
from ding.data.transition_batch import TransitionBatch
from ding.utils import BUFFER_REGISTRY, Configurable, build_logger, deep_merge_dicts, get_rank, write_scalars

logger = logging.getLogger(__name__)


@BUFFER_REGISTRY.register("deque")
class DequeBufferWrapper(Configurable):
    """A :class:`~ding.data.buffer.DequeBuffer` with the methods that the workers call.

    The newest ``replay_buffer_size`` transitions are kept. With ``priority``, samples carry ``replay_unique_id`` and
    ``replay_buffer_idx``, by which ``update`` finds the transitions again, and with ``priority_IS_weight`` the weight
    ``IS``. The same methods may be called from several threads, except ``update`` without ids.

    Args:
        cfg: See :attr:`config`; missing keys take their defaults.
        tb_logger: Writer of the logged values; created if None.
        exp_name: Folder of the experiment.
        instance_name: Name of the buffer in logs.
    """

    config: ClassVar[dict[str, Any]] = {
        "type": "deque",
        # (int) Maximum number of transitions.
        "replay_buffer_size": 10000,
        # (float) Number of times a transition may be sampled before it is deleted.
        "max_use": float("inf"),
        # (int) Train iterations between log lines.
        "train_iter_per_log": 100,
        # (bool) Sample by priority, and correct the bias with importance weights.
        "priority": False,
        "priority_IS_weight": False,
        # (float) Exponent alpha of the priorities, and initial exponent beta of the weights.
        "priority_power_factor": 0.6,
        "IS_weight_power_factor": 0.4,
        # (int) Number of batches until beta is annealed to 1.
        "IS_weight_anneal_train_iter": int(1e5),
        # (float) Upper bound of priorities.
        "priority_max_limit": 1000,
    }

    def __init__(
        self,
        cfg: Mapping[str, Any],
        tb_logger: "Writer | None" = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
    ) -> None:
        self.cfg = EasyDict(deep_merge_dicts(self.default_config(), cfg))
        self._name = instance_name
        self._owns_writer = tb_logger is None
        if tb_logger is None and get_rank() == 0:
            _, tb_logger = build_logger(f"{exp_name}/log/{instance_name}", instance_name, need_text=False)
        self._tb_logger = tb_logger if get_rank() == 0 else None
        self._last_log: int | None = None
        self._last_sample: IndexArray | list[str] = []
        self.buffer = DequeBuffer(self.cfg.replay_buffer_size)
        self._uses = UseTimeCheck(self.buffer, self.cfg.max_use)
        self.buffer.use(self._uses)
        #: Middleware that samples by priority, or None.
        self.priority: PriorityExperienceReplay | None = None
        if self.cfg.priority:
            self.priority = PriorityExperienceReplay(
                self.buffer,
                IS_weight=self.cfg.priority_IS_weight,
                priority_power_factor=self.cfg.priority_power_factor,
                IS_weight_power_factor=self.cfg.IS_weight_power_factor,
                IS_weight_anneal_train_iter=int(self.cfg.IS_weight_anneal_train_iter),
            )
            self.buffer.use(self.priority)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy. A copy writes no curves, which would be mixed up with those of the original."""
        return {**vars(self), "_tb_logger": None, "_owns_writer": False}

    # ------------------------------------------------------------------ data

    def push(self, data: "Samples | Mapping[str, Any]", cur_collector_envstep: int = -1) -> None:
        """Store transitions.

        Args:
            data: a ``TransitionBatch`` (copied as columns), a list of dicts, or one dict.
            cur_collector_envstep: Ignored.
        """
        self.buffer.extend(data if isinstance(data, (TransitionBatch, list)) else [data])

    def sample(self, size: int, train_iter: int = 0) -> "TransitionBatch | list[Any] | None":
        """Draw ``size`` transitions: distinct ones, or by priority (then some may repeat).

        Args:
            size: Number of transitions.
            train_iter: Iteration of the learner, the x axis of the logged values.

        Returns:
            A ``TransitionBatch`` if all transitions are rows of columns, else a list of shallow copies; ``None`` if the
            buffer holds fewer than ``size``.
        """
        with self.buffer._lock:
            if self.buffer.count() < size:
                logger.debug("%s holds %d transitions, %d were asked for", self._name, self.buffer.count(), size)
                return None
            records = self.buffer.sample(size)
        if self._last_log is None or train_iter - self._last_log >= self.cfg.train_iter_per_log:
            self._last_log = train_iter
            self._log(records, train_iter)
        if isinstance(records, RecordBatch):
            self._last_sample = records.indices
            return self._columns(records)
        self._last_sample = [record.index for record in records]
        return [self._row(record) for record in records]

    def _columns(self, records: RecordBatch) -> TransitionBatch:
        data = records.data
        if self.priority is None:
            return data
        added: dict[str, Any] = {"replay_unique_id": records.serials, "replay_buffer_idx": records.slots}
        if self.cfg.priority_IS_weight:
            added["IS"] = records.meta_array("priority_IS")
            data = data.without_columns("priority_IS")
        return data.with_columns(**added)

    def _row(self, record: BufferedData) -> object:
        if not isinstance(record.data, Mapping):
            return record.data
        row = dict(record.data)
        if self.priority is not None:
            row["replay_unique_id"] = record.index
            row["replay_buffer_idx"] = record.meta["priority_idx"]
            if self.cfg.priority_IS_weight:
                row.pop("priority_IS", None)
                row["IS"] = record.meta["priority_IS"]
        return row

    def update(self, meta: Mapping[str, Any]) -> None:
        """Set the priorities of sampled transitions; others are skipped. Without ``priority``: no effect.

        Args:
            meta: ``priority`` (K numbers >= 0) and ``replay_unique_id`` (K ids). Without ids, the priorities belong to
                the transitions of the last sample.

        Raises:
            SampleError: The numbers of priorities and transitions differ, or a priority is negative or not finite;
                nothing was changed.
        """
        if self.priority is None or meta.get("priority") is None:
            return
        priority = np.asarray(meta["priority"], dtype=np.float64).reshape(-1)
        indices = self._indices(meta.get("replay_unique_id"))
        if len(indices) != len(priority):
            raise SampleError(f"{len(priority)} priorities for {len(indices)} sampled transitions")
        self.buffer.batch_update(indices, metas={"priority": np.minimum(priority, self.cfg.priority_max_limit)})

    def _indices(self, ids: "Sequence[Any] | np.ndarray | None") -> "IndexArray | list[str]":
        if ids is None or not len(ids) or any(one is None for one in (ids if isinstance(ids, list) else ())):
            return self._last_sample
        if isinstance(ids, list) and any(isinstance(one, str) for one in ids):
            token = self.buffer._core.token
            return [one if isinstance(one, str) else IndexArray(token, np.array([int(one)]))[0] for one in ids]
        return IndexArray(self.buffer._core.token, np.asarray(ids, dtype=np.int64).reshape(-1))

    def count(self) -> int:
        """Number of transitions."""
        return self.buffer.count()

    def clear(self) -> None:
        """Remove all transitions."""
        self.buffer.clear()
        self._last_sample = []

    @property
    def replay_buffer_size(self) -> int:
        """Maximum number of transitions."""
        return self.buffer.size

    @property
    def push_count(self) -> int:
        """Total number of pushed transitions."""
        return self.buffer.push_count

    # ------------------------------------------------------------------ life cycle

    def start(self) -> None:
        """Do nothing; part of the buffer interface."""

    def close(self) -> None:
        """Remove all transitions and flush the log. May be called repeatedly."""
        self.clear()
        if self._tb_logger is not None:
            self._tb_logger.flush()
            if self._owns_writer:
                self._tb_logger.close()

    def _log(self, records: Records, train_iter: int) -> None:
        if self._tb_logger is None:
            return
        values = {"buffer_data_count": float(self.count()), "use_count_avg": _mean(records, "use_count")}
        if self.priority is not None:
            values["priority_avg"] = _mean(records, "priority")
            values["priority_max"] = self.priority.max_priority
        write_scalars(self._tb_logger, f"{self._name}_iter/", values, train_iter)

    # ------------------------------------------------------------------ state

    def save_data(self, file_name: str) -> None:
        """Write all transitions, with priorities and counters, to a safe file; missing folders are made.

        Raises:
            SafeFileError: The buffer contains objects without a safe form; the message says where.
        """
        with self.buffer._lock:
            write_contents(file_name, {**self.buffer._core.contents(), "extra": self._extra()})

    def load_data(self, file_name: str) -> None:
        """Replace all transitions by those of a file that ``save_data`` of this class or of a ``DequeBuffer`` wrote.

        Raises:
            SafeFileError: the file is broken or foreign; the buffer stays as it was.
            SchemaError: an index of deduplicated rows refers to no frame; the buffer stays as it was.
        """
        self._restore(read_contents(file_name))

    def state_dict(self) -> dict[str, Any]:
        """Return copies of everything needed to restore an equal buffer."""
        with self.buffer._lock:
            entries: dict[str, Any] = clone_structure({**self.buffer._core.contents(), "extra": self._extra()})
            return entries

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the buffer from a ``state_dict``."""
        self._restore(clone_structure(dict(state_dict)))

    def _extra(self) -> dict[str, Any]:
        return {
            "uses": self._uses.state_dict(),
            "priority": None if self.priority is None else self.priority.state_dict(),
            "random": self.buffer._core.draws.state_dict(),
        }

    def _restore(self, contents: Mapping[str, Any]) -> None:
        extra = contents.get("extra")
        with self.buffer._lock:
            self.buffer._core.restore(contents)
            self._last_sample = []
            if extra is None:
                return
            self._uses.load_state_dict(extra["uses"])
            if self.priority is not None and extra["priority"] is not None:
                self.priority.load_state_dict(extra["priority"])
            self.buffer._core.draws.load_state_dict(extra["random"])


def _mean(records: Records, key: str) -> float:
    if isinstance(records, RecordBatch):
        return float(records.meta_array(key).mean())
    return float(np.mean([record.meta[key] for record in records]))
