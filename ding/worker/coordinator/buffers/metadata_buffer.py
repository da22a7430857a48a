"""The replay buffer of a coordinator: it knows which rows there are and how likely each is drawn, but holds no data.

The buffer draws rows of chunks; the learner reads them.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ding.data import TransitionBatch
from ding.data.roles import Writer
from ding.worker.coordinator.buffers.chunk_table import ChunkTable, checked_ref, collect_iter_of
from ding.worker.replay_buffer.advanced_buffer import AdvancedReplayBuffer

#: Config keys that a buffer of samples has and this one has no use for.
_DATA_KEYS = ("deepcopy", "enable_track_used_data", "storage", "type")
_SAVED_UP_ROWS = 1000
# What a batch calls the columns that a sample has.
_SAMPLED = {
    "buffer_idx": "replay_buffer_idx",
    "priority": "priority",
    "IS": "IS",
    "staleness": "staleness",
    "use": "use",
}


class MetadataBuffer:
    """A prioritised buffer whose elements are ``(chunk, row)`` pairs.

    What is drawn, how weights and staleness work, and the throughput limits are those of its ``rows``, an
    :class:`~ding.worker.replay_buffer.AdvancedReplayBuffer`. A chunk is released once none of its rows is held and no
    batch with one of them is on its way to a learner.

    The classic form (``push`` of meta dicts, ``sample`` of the same dicts) still works; one buffer takes one of both.
    Thread-safe. ``release`` is called under the lock of the buffer, by the thread that caused it.

    Args:
        cfg: config of an advanced buffer. For ``type: naive`` every row is as likely as any other. Beside it,
            ``max_samples_per_insert``: how many samples a row that comes allows; without it there is no bound.
        release: called with the refs of chunks that nobody needs any more.
        exp_name, instance_name, tb_logger: as for any buffer.
        first_batch: running number of the first batch that is drawn.
    """

    def __init__(
        self,
        cfg: Mapping[str, Any],
        release: Callable[[list[dict[str, Any]]], None] | None = None,
        tb_logger: Writer | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
        first_batch: int = 1,
    ) -> None:
        known = AdvancedReplayBuffer.config
        own = {key: value for key, value in cfg.items() if key not in _DATA_KEYS and key in known}
        if cfg.get("type") == "naive":
            own["alpha"] = 0.0
        own["storage"] = {"mixed_rows": True}
        if own.get("rate_limit"):
            own["rate_limit"] = {**own["rate_limit"], "timeout_s": 0.0}  # the coordinator waits, not the buffer
        self._budget = _SampleBudget(cfg.get("max_samples_per_insert"))
        self._chunks = ChunkTable(release or _ignore, first_batch)
        self.rows = AdvancedReplayBuffer(own, tb_logger, exp_name, instance_name, self._left)
        self._lock = self.rows.engine.lock

    def _left(self, rows: Any) -> None:
        """Rows have left the buffer; those of the classic form belong to no chunk."""
        columns = rows.columns if isinstance(rows, TransitionBatch) else rows
        if isinstance(columns, dict) and "chunk" in columns:
            self._chunks.drop_rows(columns["chunk"])

    # ------------------------------------------------------------------ as any buffer

    @property
    def replay_buffer_size(self) -> int:
        """Number of rows that the buffer can hold."""
        return self.rows.replay_buffer_size

    def count(self) -> int:
        """Number of rows."""
        return self.rows.count()

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
        """Take metas of the classic form; see :meth:`AdvancedReplayBuffer.push`."""
        self.rows.push(data, cur_collector_envstep)

    def sample(self, batch_size: int, cur_learner_iter: int) -> Any:
        """Draw metas of the classic form; see :meth:`AdvancedReplayBuffer.sample`."""
        return self.rows.sample(batch_size, cur_learner_iter)

    def update(self, info: Mapping[str, Any]) -> None:
        """Set priorities of sampled rows; see :meth:`AdvancedReplayBuffer.update`."""
        self.rows.update(info)

    def close(self) -> None:
        """Remove all rows, and take no more; their chunks are released unless a batch with them is on its way."""
        with self._lock:
            self.rows.close()
            self._chunks.release_unused()

    # ------------------------------------------------------------------ push

    def admit(self, refs: Sequence[Mapping[str, Any]]) -> int:
        """How many of these chunks, from the first on, the throughput limits allow now; no push takes them away.

        That holds as long as one thread at a time admits and pushes: samples only make room.
        """
        limits = [limit for limit in (self.rows.controller, self.rows.rate_limiter) if limit is not None]
        total = 0
        for number, ref in enumerate(refs):
            total += int(ref["rows"])
            if not all(limit.can_push(total)[0] for limit in limits):
                return number
        return len(refs)

    @property
    def next_unique_id(self) -> int:
        """Running number of the next row that is pushed."""
        return self.rows.next_unique_id

    def push_chunks(self, refs: Sequence[Mapping[str, Any]], cur_collector_envstep: int = -1) -> int:
        """Take all rows of chunks.

        Args:
            refs: ``{'chunk': id, 'rows': number}`` and what is known of them: ``collect_iter`` or ``policy_iter``
                (train iteration of the policy that collected it; of several, the oldest counts) and ``priority`` (one
                number for the chunk, or one per row).
            cur_collector_envstep: env steps collected so far, for reports.

        What the throughput limits do not allow is refused and logged; :meth:`admit` says beforehand what that is.

        Returns:
            Number of rows that were offered.

        Raises:
            BufferClosedError: the buffer was closed.
            ValueError: a ref is not what :func:`checked_ref` asks for.
        """
        checked = [checked_ref(ref) for ref in refs]
        # A rate limiter knows the size of a single insert.
        groups = [checked] if self.rows.rate_limiter is None else [[ref] for ref in checked]
        with self._lock:
            for group in groups:
                if group:
                    self.rows.push(self._add(group), cur_collector_envstep)
            self._chunks.release_unused()
        return sum(ref["rows"] for ref in checked)

    def _add(self, refs: list[dict[str, Any]]) -> TransitionBatch:
        """Enter chunks; returns their rows."""
        self.rows.engine.check_open()
        self._budget.inserted(sum(ref["rows"] for ref in refs))
        counts = np.array([ref["rows"] for ref in refs], dtype=np.int64)
        columns: dict[str, Any] = {
            "chunk": np.repeat(self._chunks.add(refs), counts),
            "row": np.concatenate([np.arange(count, dtype=np.int32) for count in counts.tolist()]),
            "collect_iter": np.repeat([collect_iter_of(ref) for ref in refs], counts),
        }
        given = [ref.get("priority") for ref in refs]
        if any(priority is not None for priority in given):
            default = self.rows.priorities.largest
            columns["priority"] = np.concatenate([
                np.full(count, default if priority is None else priority, dtype=np.float64)
                for count, priority in zip(counts.tolist(), given)
            ])  # fmt: skip
        return TransitionBatch.unchecked(columns, int(counts.sum()))

    # ------------------------------------------------------------------ sample

    def sample_batches(self, size: int, iters: Sequence[int]) -> list[dict[str, Any]]:
        """Draw batches for a learner, as many as there are rows for.

        Args:
            size: number of rows of a batch.
            iters: train iteration in which each batch will be used.

        Returns:
            Of each ``batch`` (running number), ``chunks`` (ids, shared by all), ``rows`` (int64 ``[size, 2]``: position
            in ``chunks``, row there), and arrays ``[size]``: ``unique_id``, ``buffer_idx``, ``priority``, ``IS``,
            ``staleness`` and ``use``.
            The chunks stay until :meth:`batch_loaded` is called with the number of the last batch.
        """
        with self._lock:
            iters = iters[: self._budget.left // size]
            drawn = self.rows.sample_many(size, iters) if iters else None
            if drawn is None:
                return []
            self._budget.sampled(len(drawn))
            sampled = drawn.columns
            numbers, positions = np.unique(sampled["chunk"], return_inverse=True)
            taken, ids = self._chunks.hold(numbers, len(positions) // size)
            self._chunks.release_unused()
        columns = {name: sampled[key] for name, key in _SAMPLED.items()}
        columns["unique_id"] = np.asarray(sampled["replay_unique_id"])
        columns["rows"] = np.stack([positions, sampled["row"]], axis=1)
        return [
            {
                "batch": batch,
                "chunks": ids,
                **{name: column[at * size : (at + 1) * size] for name, column in columns.items()},
            }
            for at, batch in enumerate(taken)
        ]

    def batch_loaded(self, batch: int) -> None:
        """The learner has the data of all batches up to this running number."""
        with self._lock:
            self._chunks.let_go(batch)
            self._chunks.release_unused()

    def drop_batches(self) -> None:
        """The learner is disconnected: nothing is on its way any more."""
        with self._lock:
            self._chunks.let_go(None)
            self._chunks.release_unused()

    def drop_chunk(self, chunk: str) -> int:
        """Forget a chunk whose data cannot be read; returns the number of rows that it held."""
        with self._lock:
            number = self._chunks.number_of(chunk)
            removed = 0 if number is None else self.rows.remove_where("chunk", number)
            self._chunks.release_unused()
        return removed

    # ------------------------------------------------------------------ restoring

    def restore_chunks(self, refs: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Push what an earlier buffer held: ``(unique id of the first row, ref)`` in the order of the pushes."""
        with self._lock:
            for first_id, ref in refs:
                self.rows.insert(self._add([checked_ref(ref)]), first_id)
            self._chunks.release_unused()

    def priorities(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unique ids, priorities and use counts of the held rows."""
        with self._lock:
            held, table = self.rows.engine.ring.held(), self.rows.table
            return table.unique_id.take(held), self.rows.priorities.values.take(held), table.use_count.take(held)

    def restore_priorities(self, ids: np.ndarray, priorities: np.ndarray, uses: np.ndarray) -> None:
        """Take over :meth:`priorities` of an earlier buffer, for the rows that are still there."""
        with self._lock:
            held, table, own = self.rows.engine.ring.held(), self.rows.table, self.rows.priorities
            _, mine, theirs = np.intersect1d(table.unique_id.take(held), ids, assume_unique=True, return_indices=True)
            if len(mine):
                own.put(held[mine], priorities[theirs])
                own.largest = max(own.largest, float(priorities[theirs].max()))
                table.use_count[held[mine]] = uses[theirs]

    def holds(self, chunk: str) -> bool:
        """Whether a chunk is not released."""
        with self._lock:
            return chunk in self._chunks

    @property
    def chunk_count(self) -> int:
        """Chunks that are not released."""
        return len(self._chunks)


class _SampleBudget:
    """How many samples may be drawn before rows come again.

    Each inserted row allows ``per_insert`` samples. What is saved up lasts no longer than the samples of
    `_SAVED_UP_ROWS` rows, so that a learner whose collectors are gone stops soon. Not thread-safe.

    Args:
        per_insert: ``None`` for no bound.
    """

    def __init__(self, per_insert: float | None) -> None:
        if per_insert is not None and not per_insert > 0:
            raise ValueError(f"replay_buffer.max_samples_per_insert must be None or positive, found {per_insert!r}")
        self._per_insert = math.inf if per_insert is None else float(per_insert)
        self._left = 0.0

    def inserted(self, rows: int) -> None:
        self._left = min(self._left + rows * self._per_insert, max(rows, _SAVED_UP_ROWS) * self._per_insert)

    def sampled(self, rows: int) -> None:
        self._left -= rows

    @property
    def left(self) -> int:
        """Number of samples that may be drawn now."""
        return int(min(self._left, sys.maxsize))


def _ignore(refs: list[dict[str, Any]]) -> None:
    """Nobody deletes the chunks: they belong to someone else."""
