"""Replay buffer of a coordinator: an index of rows with priorities that holds no data.

The buffer samples rows of chunks; the learner reads them. A *chunk* is a file of many train samples in the data plane;
a *row* is one of them. Collectors send references to chunks; a ``ChunkTable`` counts the references that are in use.
"""

import numbers
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ding.data import TransitionBatch
from ding.data.roles import Samples, Writer
from ding.parallel.planes import check_id
from ding.worker.coordinator.buffers.limits import SampleBudget, admitted
from ding.worker.replay_buffer.advanced_buffer import AdvancedReplayBuffer

#: Config keys of sample buffers that this buffer ignores.
_DATA_KEYS = ("deepcopy", "enable_track_used_data", "storage", "type")
# Names in a batch of the fields of a sample.
_SAMPLED = {
    "buffer_idx": "replay_buffer_idx",
    "priority": "priority",
    "IS": "IS",
    "staleness": "staleness",
    "use": "use",
}
_REF_KEYS = ("chunk", "rows")
# Far above any real chunk: the rows take memory here before the file is read.
_MAX_ROWS = 1 << 22


class ChunkTable:
    """Counts, per chunk, the rows that a buffer holds and the batches in flight to a learner.

    Not thread-safe.

    Args:
        release: Called by :meth:`release_unused` with the refs of chunks whose counts are both 0.
        first_batch: Running number of the first batch.
    """

    def __init__(self, release: Callable[[list[dict[str, Any]]], None], first_batch: int = 1) -> None:
        self._release = release
        self._refs: dict[int, dict[str, Any]] = {}
        self._rows: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        self._batches: deque[tuple[int, list[int]]] = deque()
        self._next_number = 0
        self._next_batch = first_batch
        self._unused: list[int] = []

    def __len__(self) -> int:
        return len(self._refs)

    def add(self, refs: Sequence[dict[str, Any]]) -> np.ndarray:
        """Number the chunks and hold all their rows. Return int64 ``[len(refs)]``."""
        numbers = np.arange(self._next_number, self._next_number + len(refs))
        self._next_number += len(refs)
        for number, ref in zip(numbers.tolist(), refs):
            self._refs[number] = ref
            self._rows[number] = ref["rows"]
            self._numbers[ref["chunk"]] = number
        return numbers

    def __contains__(self, chunk: str) -> bool:
        return chunk in self._numbers

    def number_of(self, chunk: str) -> int | None:
        """Return the number of the chunk with this id."""
        return self._numbers.get(chunk)

    def drop_rows(self, chunks: np.ndarray) -> None:
        """Drop one row per entry of ``chunks`` (int64, with repeats)."""
        if not len(chunks):
            return
        numbers, counts = np.unique(chunks, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist()):
            self._rows[number] -= count
            if self._rows[number] == 0 and not self._held.get(number):
                self._unused.append(number)

    def drop_all(self) -> int:
        """Drop all rows; return their number."""
        counts = list(self._rows.values())
        self.drop_rows(np.repeat(list(self._rows), counts))
        return sum(counts)

    def hold(self, numbers: np.ndarray, batches: int = 1) -> tuple[list[int], list[str]]:
        """Register batches in flight with rows of these (distinct) chunks; return their running numbers and the chunk
        ids.

        All chunks are held until the last of the batches has arrived.
        """
        taken, chunks = list(range(self._next_batch, self._next_batch + batches)), numbers.tolist()
        self._next_batch += batches
        for number in chunks:
            self._held[number] = self._held.get(number, 0) + 1
        self._batches.append((taken[-1], chunks))
        return taken, [self._refs[number]["chunk"] for number in chunks]

    def let_go(self, batch: int | None) -> None:
        """Release the batches up to this running number (``None``: all), which have arrived or are lost."""
        while self._batches and (batch is None or self._batches[0][0] <= batch):
            for number in self._batches.popleft()[1]:
                self._held[number] -= 1
                if self._held[number] == 0:
                    del self._held[number]
                    if self._rows[number] == 0:
                        self._unused.append(number)

    def release_unused(self) -> None:
        """Pass unused chunks to ``release``."""
        if not self._unused:
            return
        refs = []
        for number in dict.fromkeys(self._unused):
            if self._held.get(number):
                continue  # drawn for the last time by a later batch that is in flight
            ref = self._refs.pop(number)
            del self._rows[number]
            if self._numbers.get(ref["chunk"]) == number:
                del self._numbers[ref["chunk"]]
            refs.append(ref)
        self._unused.clear()
        self._release(refs)


class ChunkHolder:
    """Learner side of a chunk buffer, over one :class:`ChunkTable`.

    Args:
        chunks: Chunks of the buffer.
        lock: Lock of the buffer.
    """

    def __init__(self, chunks: ChunkTable, lock: AbstractContextManager[Any]) -> None:
        self._chunks = chunks
        self._lock = lock

    def batch_loaded(self, batch: int) -> None:
        """Record that the learner has the data of all batches up to this running number."""
        with self._lock:
            self._chunks.let_go(batch)
            self._chunks.release_unused()

    def drop_batches(self) -> None:
        """Drop all batches in flight, because the learner is disconnected."""
        with self._lock:
            self._chunks.let_go(None)
            self._chunks.release_unused()

    def holds(self, chunk: str) -> bool:
        """Return whether a chunk is still in use."""
        with self._lock:
            return chunk in self._chunks

    @property
    def chunk_count(self) -> int:
        """Return the number of chunks in use."""
        return len(self._chunks)


class MetadataBuffer(ChunkHolder):
    """Prioritised buffer with elements ``(chunk, row)``.

    Sampling, weights, staleness and throughput limits are those of ``rows``, an
    :class:`~ding.worker.replay_buffer.AdvancedReplayBuffer`. A chunk is released once the buffer holds none of its rows
    and no batch in flight contains one.

    The classic form (``push`` of meta dicts, ``sample`` of the same dicts) is supported; a buffer uses either form, not
    both. Thread-safe. ``release`` is called under the buffer's lock, by the thread that caused it.

    Args:
        cfg: Config of an advanced buffer; ``type: naive`` samples uniformly. Additional key:
            ``max_samples_per_insert``, the number of samples per inserted row (missing: unlimited).
        release: Called with the refs of unused chunks.
        exp_name, instance_name, tb_logger: As in other buffers.
        first_batch: Running number of the first batch.
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
        own = index_config(cfg)
        if own.get("rate_limit"):
            own["rate_limit"] = {**own["rate_limit"], "timeout_s": 0.0}  # the coordinator waits, not the buffer
        self._budget = SampleBudget(cfg.get("max_samples_per_insert"))
        self.rows = AdvancedReplayBuffer(own, tb_logger, exp_name, instance_name, self._left)
        super().__init__(ChunkTable(release or _ignore, first_batch), self.rows.engine.lock)

    def _left(self, rows: Any) -> None:
        """Handle rows that left the buffer; rows of the classic form have no chunk."""
        columns = rows.columns if isinstance(rows, TransitionBatch) else rows
        if isinstance(columns, dict) and "chunk" in columns:
            self._chunks.drop_rows(columns["chunk"])

    # ------------------------------------------------------------------ buffer interface

    @property
    def replay_buffer_size(self) -> int:
        """Capacity in rows."""
        return self.rows.replay_buffer_size

    def count(self) -> int:
        """Return the number of rows."""
        return self.rows.count()

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
        """Push metas of the classic form; see :meth:`AdvancedReplayBuffer.push`."""
        self.rows.push(data, cur_collector_envstep)

    def sample(self, batch_size: int, cur_learner_iter: int) -> Samples | None:
        """Sample metas of the classic form; see :meth:`AdvancedReplayBuffer.sample`."""
        return self.rows.sample(batch_size, cur_learner_iter)

    def update(self, info: Mapping[str, Any]) -> None:
        """Set the priorities of sampled rows; see :meth:`AdvancedReplayBuffer.update`."""
        self.rows.update(info)

    def close(self) -> None:
        """Remove all rows and accept no more; their chunks are released unless a batch in flight contains them."""
        with self._lock:
            self.rows.close()
            self._chunks.release_unused()

    # ------------------------------------------------------------------ push

    def admit(self, refs: Sequence[Mapping[str, Any]]) -> int:
        """Return how many of these chunks, from the first on, the throughput limits allow now.

        The result stays valid as long as a single thread admits and pushes, because sampling only frees capacity.
        """
        return admitted([int(ref["rows"]) for ref in refs], self.rows.controller, self.rows.rate_limiter)

    @property
    def next_unique_id(self) -> int:
        """Running number of the next row."""
        return self.rows.next_unique_id

    def push_chunks(self, refs: Sequence[Mapping[str, Any]], cur_collector_envstep: int = -1) -> int:
        """Push all rows of chunks.

        Args:
            refs: ``{'chunk': id, 'rows': number}``, optionally with ``collect_iter`` or ``policy_iter`` (train
                iteration of the collecting policy; of several, the oldest counts) and ``priority`` (one number for the
                chunk, or one per row).
            cur_collector_envstep: Env steps collected so far, for reports.

            Chunks beyond the throughput limits are refused and logged; see :meth:`admit`.

        Returns:
            Number of rows offered.

        Raises:
            BufferClosedError: The buffer was closed.
            ValueError: A ref fails :func:`checked_ref`.
        """
        checked = [checked_ref(ref) for ref in refs]
        # A rate limiter needs the size of each insert.
        groups = [checked] if self.rows.rate_limiter is None else [[ref] for ref in checked]
        with self._lock:
            for group in groups:
                if group:
                    self.rows.push(self._add(group), cur_collector_envstep)
            self._chunks.release_unused()
        return sum(ref["rows"] for ref in checked)

    def _add(self, refs: list[dict[str, Any]]) -> TransitionBatch:
        """Register chunks and return their rows."""
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
            size: Rows per batch.
            iters: Train iteration of each batch.

        Returns:
            For each batch a dict with ``batch`` (running number), ``chunks`` (ids, shared by all batches), ``rows``
            (int64 ``[size, 2]``: position in ``chunks``, row within the chunk), and arrays ``[size]``: ``unique_id``,
            ``buffer_idx``, ``priority``, ``IS``, ``staleness`` and ``use``. The chunks are held until
            :meth:`batch_loaded` is called with the number of the last batch.
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

    def drop_chunk(self, chunk: str) -> int:
        """Remove an unreadable chunk; return the number of its rows."""
        with self._lock:
            number = self._chunks.number_of(chunk)
            removed = 0 if number is None else self.rows.remove_where("chunk", number)
            self._chunks.release_unused()
        return removed

    # ------------------------------------------------------------------ restoring

    def restore_chunks(self, refs: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Push the content of an earlier buffer: ``(unique id of the first row, ref)`` in push order."""
        with self._lock:
            for first_id, ref in refs:
                self.rows.insert(self._add([checked_ref(ref)]), first_id)
            self._chunks.release_unused()

    def priorities(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return unique ids, priorities and use counts of the rows."""
        return index_priorities(self.rows)

    def restore_priorities(self, ids: np.ndarray, priorities: np.ndarray, uses: np.ndarray) -> None:
        """Restore :meth:`priorities` of an earlier buffer, for rows that still exist."""
        restore_index_priorities(self.rows, ids, priorities, uses)


def index_config(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of the row index (an advanced buffer) from the config of a buffer."""
    known = AdvancedReplayBuffer.config
    own = {key: value for key, value in cfg.items() if key not in _DATA_KEYS and key in known}
    return {**own, **({"alpha": 0.0} if cfg.get("type") == "naive" else {}), "storage": {"mixed_rows": True}}


def index_priorities(index: AdvancedReplayBuffer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return unique ids, priorities and use counts of the rows."""
    with index.engine.lock:
        held, table = index.engine.ring.held(), index.table
        return table.unique_id.take(held), index.priorities.values.take(held), table.use_count.take(held)


def restore_index_priorities(
    index: AdvancedReplayBuffer, ids: np.ndarray, priorities: np.ndarray, uses: np.ndarray
) -> None:
    """Restore :func:`index_priorities` of an earlier index, for rows that still exist."""
    with index.engine.lock:
        held, table, own = index.engine.ring.held(), index.table, index.priorities
        _, mine, theirs = np.intersect1d(table.unique_id.take(held), ids, assume_unique=True, return_indices=True)
        if len(mine):
            own.put(held[mine], priorities[theirs])
            own.largest = max(own.largest, float(priorities[theirs].max()))
            table.use_count[held[mine]] = uses[theirs]


def _ignore(refs: list[dict[str, Any]]) -> None:
    """Keep the chunks, which belong to another owner."""


def checked_ref(ref: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of a worker's ref, which can be pushed now and by a restarted coordinator.

    Raises:
        ValueError: The id is not a plain name, the number of rows is not positive (up to 4 million), or the train
            iteration or priority is invalid.
    """
    missing = [key for key in _REF_KEYS if key not in ref]
    if missing:
        raise ValueError(f"a chunk ref needs the keys {list(_REF_KEYS)}, found {sorted(ref)}")
    chunk, rows = ref["chunk"], ref["rows"]
    if not isinstance(chunk, str) or isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ValueError(
            f"a chunk ref needs a text 'chunk' and a positive int 'rows', found {_short(chunk)} and {_short(rows)}"
        )
    check_id(chunk, "the 'chunk' of a ref")
    if rows > _MAX_ROWS:
        raise ValueError(f"a chunk may have {_MAX_ROWS} rows at most, found {_short(rows)}")
    iters = ref.get("collect_iter", ref.get("policy_iter"))
    if iters is not None and not all(map(_is_iter, iters if isinstance(iters, (list, tuple)) else [iters])):
        raise ValueError(f"the train iteration of a chunk must be an int, or several, found {_short(iters)}")
    _check_priority(ref.get("priority"), rows)
    return dict(ref)


def _check_priority(priority: object, rows: int) -> None:
    if priority is None:
        return
    try:
        values = np.asarray(priority, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"the priority of a chunk must be a number or one per row, found {_short(priority)}"
        ) from error
    if values.shape not in ((), (rows,)):
        raise ValueError(f"the priority of a chunk of {rows} rows must be one number or {rows}, found {values.size}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"the priority of a chunk must be finite and not negative, found {_short(priority)}")


def _is_iter(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and abs(int(value)) < 1 << 62


def _short(value: object) -> str:
    return repr(value)[:60] if isinstance(value, (str, float)) else f"a {type(value).__name__}"


def collect_iter_of(ref: Mapping[str, Any]) -> int:
    """Return the train iteration of the collecting policy, the oldest of several; very small if unknown."""
    value = ref.get("collect_iter", ref.get("policy_iter"))
    if isinstance(value, (list, tuple)):
        value = min(value, default=None)
    return int(np.iinfo(np.int64).min) if value is None else int(value)
