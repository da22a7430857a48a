"""The replay buffer of a coordinator: it knows which rows there are and how likely each is drawn, but holds no data.

Words: a *chunk* is a file of many train samples in the data plane; a *row* is one of them. The buffer draws rows; the
learner reads them.
"""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ding.data import TransitionBatch
from ding.parallel.planes import check_id
from ding.parallel.planes.chunk_table import ChunkTable
from ding.worker.replay_buffer.advanced_buffer import AdvancedReplayBuffer

#: Config keys that a buffer of samples has and this one has no use for.
_DATA_KEYS = ("deepcopy", "enable_track_used_data", "storage", "type")
_REF_KEYS = ("chunk", "rows")
# No chunk comes near this; its rows take memory here, before anybody has seen the file.
_MAX_ROWS = 1 << 22
# What a batch calls the columns that a sample has.
_SAMPLED = {
    "buffer_idx": "replay_buffer_idx",
    "priority": "priority",
    "IS": "IS",
    "staleness": "staleness",
    "use": "use",
}


class MetadataBuffer(AdvancedReplayBuffer):
    """A prioritised buffer whose elements are ``(chunk, row)`` pairs, in columns.

    What is drawn, how weights and staleness work, and the throughput limits are those of
    :class:`~ding.worker.replay_buffer.AdvancedReplayBuffer`. A chunk is released once none of its rows is held and no
    batch with one of them is on its way to a learner.

    The classic form (``push`` of meta dicts, ``sample`` of the same dicts) still works; one buffer takes one of both.

    Thread-safe. ``release`` is called under the lock of the buffer, by the thread that caused it.

    Args:
        cfg: config of an advanced buffer. For ``type: naive`` every row is as likely as any other.
        release: called with the refs of chunks that nobody needs any more.
        exp_name, instance_name, tb_logger: as for any buffer.
        first_batch: running number of the first batch that is drawn.
    """

    def __init__(
        self,
        cfg: Any,
        release: Callable[[list[dict[str, Any]]], None] | None = None,
        tb_logger: Any = None,
        exp_name: str = "default_experiment",
        instance_name: str = "buffer",
        first_batch: int = 1,
    ) -> None:
        uniform = cfg.get("type") == "naive"
        cfg = {key: value for key, value in cfg.items() if key not in _DATA_KEYS and key in self.config}
        if uniform:
            cfg["alpha"] = 0.0
        cfg["storage"] = {"mixed_rows": True}
        if cfg.get("rate_limit"):
            cfg["rate_limit"] = {**cfg["rate_limit"], "timeout_s": 0.0}  # the coordinator waits, not the buffer
        self._chunks = ChunkTable(release or _ignore, first_batch)
        super().__init__(cfg, tb_logger, exp_name, instance_name)
        self._chunk_of = np.full(self._size, -1, dtype=np.int64)

    # ------------------------------------------------------------------ push

    def admit(self, refs: Sequence[Mapping[str, Any]]) -> int:
        """How many of these chunks, from the first on, the throughput limits allow now; no push takes them away.

        That holds as long as one thread at a time admits and pushes: samples only make room.
        """
        limits = [limit for limit in (self._controller, self._limiter) if limit is not None]
        total = 0
        for number, ref in enumerate(refs):
            total += int(ref["rows"])
            if not all(limit.can_push(total)[0] for limit in limits):
                return number
        return len(refs)

    @property
    def next_unique_id(self) -> int:
        """Running number of the next row that is pushed."""
        return self._next_unique_id

    def push_chunks(self, refs: Sequence[Mapping[str, Any]], cur_collector_envstep: int = -1) -> int:
        """Take all rows of chunks.

        Args:
            refs: ``{'chunk': id, 'rows': number}`` and what is known of them: ``collect_iter`` or ``policy_iter``
                (train iteration of the policy that collected it; of several, the oldest counts) and ``priority`` (one
                number for the chunk, or one per row).
            cur_collector_envstep: env steps collected so far, for reports.

        What the throughput limits do not allow is refused and logged; :meth:`admit` tells beforehand.

        Returns:
            Number of rows that were offered.

        Raises:
            BufferClosedError: the buffer was closed.
            ValueError: a ref is not what :func:`checked_ref` asks for.
        """
        checked = [checked_ref(ref) for ref in refs]
        if self._limiter is not None and len(checked) > 1:  # it knows the size of a single insert
            return sum(self.push_chunks([ref], cur_collector_envstep) for ref in checked)
        if not checked:
            return 0
        counts = np.array([ref["rows"] for ref in checked], dtype=np.int64)
        with self._lock:
            self._check_open()
            numbers = self._chunks.add(checked)
            columns: dict[str, Any] = {
                "chunk": np.repeat(numbers, counts),
                "row": np.concatenate([np.arange(count, dtype=np.int32) for count in counts.tolist()]),
                "collect_iter": np.repeat([_collect_iter(ref) for ref in checked], counts),
            }
            if any(ref.get("priority") is not None for ref in checked):
                columns["priority"] = np.concatenate([self._priorities(ref) for ref in checked])
            self.push(TransitionBatch.unchecked(columns, int(counts.sum())), cur_collector_envstep)
            self._chunks.release_unused()
        return int(counts.sum())

    def _priorities(self, ref: Mapping[str, Any]) -> np.ndarray:
        given = ref.get("priority")
        return np.full(ref["rows"], self._max_priority if given is None else given, dtype=np.float64)

    def _push_rows(self, rows: Any, count: int) -> None:
        chunks = rows.get("chunk") if isinstance(rows, dict) else None
        if chunks is None:
            super()._push_rows(rows, count)
            return
        self._chunks.drop_rows(self._chunk_of.take(self._leaving(count)))
        skipped = max(0, count - self._size)
        self._chunks.drop_rows(chunks[:skipped])
        super()._push_rows(rows, count)
        placed = count - skipped
        positions = (self._tail - placed + np.arange(placed)) % self._size
        self._chunk_of[positions] = chunks[skipped:]

    def _remove(self, positions: np.ndarray) -> None:
        super()._remove(positions)
        if len(self._chunks):
            self._chunks.drop_rows(self._chunk_of.take(positions))

    def clear(self) -> None:
        """Remove all elements; their chunks are released unless a batch with them is on its way."""
        with self._lock:
            if len(self._chunks):
                self._chunks.drop_rows(self._chunk_of.take(self._held_positions()))
            super().clear()
            self._chunks.release_unused()

    # ------------------------------------------------------------------ sample

    def sample_batch(self, size: int, cur_learner_iter: int) -> dict[str, Any] | None:
        """Draw a batch for a learner.

        Args:
            size: number of rows.
            cur_learner_iter: train iteration in which the batch will be used.

        Returns:
            ``None`` when there are not enough rows, else ``batch`` (running number), ``chunks`` (ids), ``rows`` (int64
            ``[size, 2]``: position in ``chunks``, row there), and arrays ``[size]``: ``unique_id``, ``buffer_idx``,
            ``priority``, ``IS``, ``staleness`` and ``use``.

            Its chunks stay until :meth:`batch_loaded` is told the running number.
        """
        batches = self.sample_batches(size, [cur_learner_iter])
        return batches[0] if batches else None

    def sample_batches(self, size: int, iters: Sequence[int]) -> list[dict[str, Any]]:
        """Draw batches as :meth:`sample_batch` does, one for each train iteration of ``iters`` while there are rows.

        They share their list of ``chunks``, and these stay until the last of the batches is loaded.
        """
        with self._lock:
            drawn = self._draw_together(size, iters) if self._draws_change_nothing else self._draw_each(size, iters)
            if not drawn:
                return []
            numbers, positions = np.unique(drawn["chunk"], return_inverse=True)
            taken, ids = self._chunks.hold(numbers, len(positions) // size)
            self._chunks.release_unused()
        columns = {name: drawn[key] for name, key in _SAMPLED.items()}
        columns["unique_id"] = np.asarray(drawn["replay_unique_id"])
        columns["rows"] = np.stack([positions, drawn["row"]], axis=1)
        return [
            {
                "batch": batch,
                "chunks": ids,
                **{name: column[at * size : (at + 1) * size] for name, column in columns.items()},
            }
            for at, batch in enumerate(taken)
        ]

    @property
    def _draws_change_nothing(self) -> bool:
        """Whether neither the rows nor their priorities depend on what was drawn before."""
        unlimited = self._limiter is None and self._controller is None and self._max_use == math.inf
        return unlimited and self._max_staleness == math.inf

    def _draw_together(self, size: int, iters: Sequence[int]) -> dict[str, Any]:
        """Columns of all batches, drawn and described in one go: that costs hardly more than for one batch."""
        if not len(iters) or self._why_not(size):
            return {}
        slots, tree = self._slots, self._slots.tree
        # One point per row, stratified within each batch.
        points = self._generator.random((len(iters), size)) + np.arange(size)
        positions, weights = tree.draw(points.ravel(), size)
        uses = []
        # By index and not by ``take``, which copies a whole column of a table first.
        for drawn in positions.reshape(-1, size):
            np.add.at(slots.use_count, drawn, 1)
            uses.append(slots.use_count[drawn])
        betas = []
        for _ in iters:
            betas.append(self._beta)
            if self._anneal_step:
                self._beta = min(1.0, self._beta + self._beta_step)
        sampled = self._annotated(
            positions, weights, np.repeat(iters, size), np.concatenate(uses), np.repeat(betas, size)
        )
        columns: dict[str, Any] = sampled.columns
        self._counters.sampled += size * len(iters)
        for cur_iter in iters:
            self._report(cur_iter)
        return columns

    def _draw_each(self, size: int, iters: Sequence[int]) -> dict[str, Any]:
        """Columns of as many batches as the limits allow."""
        drawn = []
        for cur_iter in iters:
            # Asked for again and again: a refusal is not worth a line in the log.
            if self._why_not(size) or (self._limiter is not None and not self._limiter.can_sample(size)[0]):
                break
            sampled = self.sample(size, cur_iter)
            if sampled is None or not len(sampled):
                break
            drawn.append(sampled.columns)
        return {key: np.concatenate([np.asarray(one[key]) for one in drawn]) for key in drawn[0]} if drawn else {}

    def batch_loaded(self, batch: int) -> None:
        """The learner has the data of all batches up to this running number."""
        with self._lock:
            self._chunks.let_go(batch)
            self._chunks.release_unused()

    def drop_batches(self) -> None:
        """The learner is gone: nothing is on its way any more."""
        with self._lock:
            self._chunks.let_go(None)
            self._chunks.release_unused()

    def drop_chunk(self, chunk: str) -> int:
        """Forget a chunk whose data cannot be read; returns the number of rows that it held."""
        with self._lock:
            number = self._chunks.number_of(chunk)
            if number is None:
                return 0
            held = self._held_positions()
            positions = held[self._chunk_of.take(held) == number]
            if len(positions):
                self._remove(positions)
            self._chunks.release_unused()
        return len(positions)

    # ------------------------------------------------------------------ restoring

    def restore_chunks(self, refs: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Push what an earlier buffer held: ``(unique id of the first row, ref)`` in the order of the pushes."""
        with self._lock:
            for first_id, ref in refs:
                self._next_unique_id = first_id
                limits = self._controller, self._limiter
                self._controller = self._limiter = None
                try:
                    self.push_chunks([ref])
                finally:
                    self._controller, self._limiter = limits

    def priorities(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unique ids, priorities and use counts of the held rows."""
        with self._lock:
            held, slots = self._held_positions(), self._slots
            return slots.unique_id.take(held), slots.priority.take(held), slots.use_count.take(held)

    def restore_priorities(self, ids: np.ndarray, priorities: np.ndarray, uses: np.ndarray) -> None:
        """Take over :meth:`priorities` of an earlier buffer, for the rows that are still there."""
        with self._lock:
            held = self._held_positions()
            own = self._slots.unique_id.take(held)
            _, mine, theirs = np.intersect1d(own, ids, assume_unique=True, return_indices=True)
            if len(mine):
                largest = float(priorities[theirs].max())
                self._slots.set_priority(held[mine], priorities[theirs], largest)
                self._slots.use_count[held[mine]] = uses[theirs]
                self._max_priority = max(self._max_priority, largest)

    def holds(self, chunk: str) -> bool:
        """Whether a chunk is not released."""
        with self._lock:
            return chunk in self._chunks

    @property
    def chunk_count(self) -> int:
        """Chunks that are not released."""
        return len(self._chunks)


def checked_ref(ref: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a ref, as it comes from a worker: one that passes can be pushed, now and by a restarted coordinator.

    Raises:
        ValueError: it has no id that is a plain name, no positive number of rows (up to 4 million), or a train
            iteration or priority that cannot be one.
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


def _check_priority(priority: Any, rows: int) -> None:
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


def _is_iter(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and abs(int(value)) < 1 << 62


def _short(value: Any) -> str:
    return repr(value)[:60] if isinstance(value, (str, float)) else f"a {type(value).__name__}"


def _collect_iter(ref: Mapping[str, Any]) -> int:
    value = ref.get("collect_iter", ref.get("policy_iter"))
    if isinstance(value, (list, tuple)):
        value = min(value, default=None)
    return int(np.iinfo(np.int64).min) if value is None else int(value)


def _ignore(refs: list[dict[str, Any]]) -> None:
    """Nobody deletes the chunks: they belong to someone else."""
