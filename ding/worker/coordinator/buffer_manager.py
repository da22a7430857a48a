"""Replay buffers of a coordinator, with their journal and their chunk files."""

import contextlib
import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ding.parallel.messages import GROUP_ROWS
from ding.parallel.planes import BadId, DataPlane, StorageError, writer_of
from ding.worker.coordinator.buffers.admission import WorkerQuota, compare_with_chunks
from ding.worker.coordinator.buffers.metadata_buffer import MetadataBuffer, checked_ref
from ding.worker.coordinator.buffers.on_policy_buffer import Grant, OnPolicyBuffer
from ding.worker.coordinator.shards.sharded_buffer import Connect, ShardedBuffer
from ding.worker.coordinator.tasks.journal import BUFFER_COUNTS, ChunkRow, Journal, JournalState
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder

log = logging.getLogger(__name__)

_BATCHES_PER_LIFE = 1 << 40
Buffer = MetadataBuffer | OnPolicyBuffer | ShardedBuffer


class BufferManager:
    """Opens and closes buffers, takes each chunk exactly once, and deletes unused chunks.

    Thread-safe. The order of operations makes a kill at any point harmless: a chunk is journaled before it is pushed
    and acknowledged after that; its file is deleted before its journal entry.

    Args:
        journal: Journal of the chunks.
        ledger: Tasks, their workers, and the last sequence number received from each.
        data_plane: ``release(refs)`` deletes files; ``None``: files are kept.
        exp_name: Experiment directory.
        quota: Limit of the data held per worker; unlimited by default.
        shards: Provides the shards of sharded buffers; ``None``: shards in this process.
    """

    def __init__(
        self,
        journal: Journal,
        ledger: TaskLedger,
        data_plane: DataPlane | None,
        exp_name: str,
        quota: WorkerQuota | None = None,
        shards: Connect | None = None,
    ) -> None:
        self.buffers: dict[str, Buffer] = {}
        self._shards = shards
        self._journal = journal
        self._ledger = ledger
        self._plane = data_plane
        self._exp_name = exp_name
        # Guards ``buffers`` and every push, so that a buffer stays open while it is pushed to.
        self._doors = threading.Lock()
        self._arrived = threading.Condition()
        self._arrivals = 0
        self._number = 0
        self._life = 0
        self._keep_files = False
        self._deleting = threading.Lock()
        self._files_held = False
        self._doomed: deque[Mapping[str, Any]] = deque()
        self._counts: Counter[str] = Counter()
        self._quota = quota or WorkerQuota()

    # ------------------------------------------------------------------ life

    def open(self, buffer_id: str, cfg: Mapping[str, Any]) -> None:
        """Create a buffer unless it exists."""
        with self._doors:
            if buffer_id not in self.buffers:
                plain = {key: value for key, value in cfg.items() if key != "import_names"}
                self._journal.save_buffer(buffer_id, plain)
                self._make(buffer_id, plain)

    def _make(self, buffer_id: str, cfg: Mapping[str, Any]) -> Buffer:
        # Learners outlive a coordinator and accept only batches with a higher number than their last one.
        first_batch = self._life * _BATCHES_PER_LIFE + 1
        buffer: Buffer
        if cfg.get("type") == "on_policy":
            buffer = OnPolicyBuffer(self._release, first_batch, partial(self._count, "stale_rows"), self.data_arrived)
        elif int(cfg.get("shards") or 1) > 1:
            own = buffer_id, self._exp_name, first_batch
            buffer = ShardedBuffer(cfg, *own, self._release, self._count, self._shards)
        else:
            buffer = MetadataBuffer(cfg, self._release, exp_name=self._exp_name, first_batch=first_batch)
        self.buffers[buffer_id] = buffer
        return buffer

    def _count(self, name: str, number: int) -> None:
        self._counts[name] += number

    def shut(self, buffer_id: str) -> None:
        """Close a buffer and delete its chunks."""
        with self._doors:
            buffer = self.buffers.pop(buffer_id, None)
            if buffer is not None:
                buffer.close()
                buffer.drop_batches()
                self._journal.drop_buffer(buffer_id)
        self.data_arrived()

    def size_of(self, buffer_id: str) -> int:
        """Return the capacity of a buffer, in rows."""
        return self.buffers[buffer_id].replay_buffer_size

    def snapshot(self) -> None:
        """Save the priorities and counters to the journal."""
        self._journal.save_values({BUFFER_COUNTS: dict(self._counts)})
        for buffer_id, buffer in list(self.buffers.items()):
            if not isinstance(buffer, OnPolicyBuffer):
                self._journal.save_priorities(buffer_id, *buffer.priorities())

    def close(self) -> None:
        """Close all buffers; files and journal are kept for the next coordinator."""
        with self._doors:
            self._keep_files = True
            for buffer_id in list(self.buffers):
                self.buffers.pop(buffer_id).close()
        self.data_arrived()

    def restore(self, state: JournalState) -> None:
        """Recreate the buffers of an earlier coordinator."""
        self._life = int(state.values.get("life", 0)) + 1
        self._journal.save_values({"life": self._life})
        self._number = max((chunk.number for chunk in state.chunks), default=0)
        self._counts.update(state.values.get(BUFFER_COUNTS, {}))
        for buffer_id, cfg in state.buffers.items():
            buffer = self._make(buffer_id, cfg)
            chunks = [chunk for chunk in state.chunks if chunk.buffer_id == buffer_id]
            buffer.restore_chunks([(chunk.first_id, {**chunk.ref, "number": chunk.number}) for chunk in chunks])
            self._enter(buffer, [chunk.ref for chunk in chunks])
            if buffer_id in state.priorities and not isinstance(buffer, OnPolicyBuffer):
                buffer.restore_priorities(*state.priorities[buffer_id])

    # ------------------------------------------------------------------ in

    def take(self, task_id: str, buffer_id: str, holder: Holder, refs: Sequence[Mapping[str, Any]]) -> int:
        """Take chunks of a worker, each once; return the sequence number up to which the worker may drop them.

        Args:
            refs: References with the key ``seq``, a running number of the worker.

        Raises:
            ValueError: A ref lacks keys or differs from its chunk, or the chunk is missing or was taken before.
        """
        try:
            sizes, broken = self._compare(task_id, holder, refs)
        except StorageError as error:
            log.warning("chunks cannot be looked at for now: %s", error)
            return self._ledger.seen(task_id, holder)
        with self._doors:
            seen = self._ledger.seen(task_id, holder)
            if self._keep_files:  # closed: the chunks belong to the next coordinator
                return seen
            fresh = {int(ref["seq"]): ref for ref in refs if int(ref["seq"]) > seen}
            self._counts["duplicates"] += len(refs) - len(fresh)
            new = [checked_ref(fresh[seq]) for seq in sorted(fresh)]
            if not new:
                return seen
            buffer = self.buffers.get(buffer_id)
            held = self._ledger.task_of(holder)
            if buffer is None or held is None or held.task_id != task_id:
                self._counts["dropped_chunks"] += len(new)
                self._delete(new)
                return int(new[-1]["seq"])
            for ref in new:
                if any(one.holds(ref["chunk"]) for one in self.buffers.values()):
                    raise ValueError(f"the 'chunk' of a ref must be a new one, found {ref['chunk']!r} again")
                self._quota.mark(ref, holder.worker, sizes.get(ref["chunk"], 0))
            last = int(new[-1]["seq"])
            new = [ref for ref in new if ref["chunk"] not in broken]
            if not new:
                self._ledger.heard(task_id, holder, last)
                return last
            taken = new[: buffer.admit(new)]
            if taken:
                rows, first_id = [], buffer.next_unique_id
                for number, ref in enumerate(taken, self._number + 1):
                    rows.append(ChunkRow(number, buffer_id, first_id, ref))
                    first_id += ref["rows"]
                seen, self._number = int(taken[-1]["seq"]), self._number + len(taken)
                counts = self._counts + Counter(rows=sum(row.ref["rows"] for row in rows), chunks=len(rows))
                self._journal.save_chunks(rows, task_id, holder, seen, counts)
                self._ledger.heard(task_id, holder, seen)
                self._counts["rows"] += buffer.push_chunks([{**row.ref, "number": row.number} for row in rows])
                self._counts["chunks"] += len(rows)
                self._enter(buffer, taken)
                self.data_arrived()
            return seen

    def _enter(self, buffer: Buffer, refs: Sequence[Mapping[str, Any]]) -> None:
        """Register the chunks with the quota, and drop those beyond it."""
        for surplus in self._quota.enter(refs):
            self._counts["surplus_rows"] += buffer.drop_chunk(surplus)

    def _compare(
        self, task_id: str, holder: Holder, refs: Sequence[Mapping[str, Any]]
    ) -> tuple[Mapping[str, int], Collection[str]]:
        """Return the sizes of the chunks of new refs, and the ids of damaged chunks; see `admission`."""
        held, seen = self._ledger.task_of(holder), self._ledger.seen(task_id, holder)
        if self._plane is None or held is None or held.task_id != task_id:
            return {}, ()
        sizes, broken = compare_with_chunks(self._plane, [ref for ref in refs if int(ref["seq"]) > seen])
        self._counts["broken_rows"] += sum(broken.values())
        return sizes, broken

    def push(self, buffer_id: str, data: object) -> bool:
        """Push one meta dict (classic form); return False if there is no such buffer."""
        with self._doors:
            buffer = self.buffers.get(buffer_id)
            if buffer is None:
                return False
            buffer.push(data, -1)
        self.data_arrived()
        return True

    def data_arrived(self) -> None:
        """Wake threads that wait for data."""
        with self._arrived:
            self._arrivals += 1
            self._arrived.notify_all()

    def wait_for_data(self, timeout_s: float) -> bool:
        """Wait until data arrives; return False on time-out."""
        with self._arrived:
            seen = self._arrivals
            return self._arrived.wait_for(lambda: self._arrivals != seen, timeout_s)

    # ------------------------------------------------------------------ out

    def sample(
        self, buffer_id: str, demand: Sequence[Mapping[str, int]], wait_s: float, closing: threading.Event
    ) -> list[dict[str, Any]]:
        """Return the available batches of ``demand``; wait up to ``wait_s`` for the first."""
        batches: list[dict[str, Any]] = []

        def drawn() -> bool:
            buffer = self.buffers.get(buffer_id)
            batches.extend([] if buffer is None else _batches(buffer, demand))
            return bool(batches) or buffer is None

        self._wait_until(drawn, wait_s, closing)
        self._counts["sampled_rows"] += sum(len(batch["rows"]) for batch in batches)
        return batches

    def grant(
        self, task: Mapping[str, Any], holder: Holder, wait_s: float, closing: threading.Event
    ) -> dict[str, Any] | None:
        """Return the grant of an on-policy run's collector; wait up to ``wait_s`` for one, else return an empty dict.

        ``None``: grants do not apply to this collector.
        """
        grants: list[Grant | None] = []

        def granted() -> bool:
            buffer = self.buffers.get(task["buffer_id"])
            grants[:] = [buffer.grant(holder)] if isinstance(buffer, OnPolicyBuffer) else []
            return grants != [None]

        if task.get("collector_cfg", {}).get("eval_flag"):
            return None
        self._wait_until(granted, wait_s, closing)
        return None if not grants else {} if grants[0] is None else vars(grants[0])

    def leave(self, task: Mapping[str, Any], holder: Holder) -> None:
        """Record that a collector has no more data."""
        buffer = self.buffers.get(task["buffer_id"])
        if isinstance(buffer, OnPolicyBuffer):
            buffer.leave(holder)

    def _wait_until(self, holds: Callable[[], bool], wait_s: float, closing: threading.Event) -> None:
        """Wait up to ``wait_s`` until a condition holds that may change when data arrives."""
        deadline = time.monotonic() + wait_s
        while True:
            with self._arrived:
                seen = self._arrivals
            left = deadline - time.monotonic()
            if holds() or left <= 0 or closing.is_set():
                return
            with self._arrived:
                self._arrived.wait_for(lambda: self._arrivals != seen, min(left, 0.5))  # noqa: B023

    def loaded(self, buffer_id: str, batch: int, broken: Sequence[str]) -> None:
        """Record that a learner has read all batches up to ``batch`` and could not read the chunks ``broken``."""
        buffer = self.buffers.get(buffer_id)
        if buffer is None:
            return
        if batch:
            buffer.batch_loaded(batch)
        for chunk in broken:
            self._counts["broken_rows"] += buffer.drop_chunk(chunk)

    def discard(self, chunks: Iterable[str]) -> int:
        """Delete the given chunks unless a buffer holds them; return the number deleted."""
        with self._doors:
            if self._keep_files or self._plane is None:
                return 0
            buffers = list(self.buffers.values())
            unknown = [{"chunk": chunk} for chunk in chunks if not any(buffer.holds(chunk) for buffer in buffers)]
            deleted = self._delete(unknown)
            self._counts["discarded_chunks"] += deleted
            return deleted

    def sweep(self, incarnations: Collection[str]) -> int:
        """Delete the untaken chunks of dead processes; return the number of chunks."""
        if self._plane is None or not incarnations:
            return 0
        return self.discard([chunk for chunk in self._plane.chunks() if writer_of(chunk) in incarnations])

    def _release(self, refs: list[dict[str, Any]]) -> None:
        if self._keep_files:
            return
        self._delete(refs)
        self._quota.leave(refs)
        self._journal.drop_chunks([ref["number"] for ref in refs])
        self._counts["released_chunks"] += len(refs)

    def _delete(self, refs: Sequence[Mapping[str, Any]]) -> int:
        """Delete files and return their number. Failed deletions are retried with the next ones, so that no caller
        waits.
        """
        deleted = 0
        if self._plane is None:
            return deleted
        with self._deleting:
            could = not self._doomed
            self._doomed.extend(refs)
            while self._doomed and not self._files_held:
                try:
                    deleted += self._plane.release([self._doomed[0]])
                except BadId as error:
                    log.warning("a chunk that a worker told of cannot be one: %s", error)
                except StorageError as error:
                    if could:
                        log.warning("chunks cannot be deleted for now: %s", error)
                    break
                self._doomed.popleft()
        return deleted

    @contextlib.contextmanager
    def files_held(self) -> Iterator[None]:
        """Suspend file deletion within the block, so that files can be copied."""
        with self._deleting:
            self._files_held = True
        try:
            yield
        finally:
            with self._deleting:
                self._files_held = False
            self._delete([])

    @property
    def rows_taken(self) -> int:
        """Number of rows pushed since the start of the run."""
        return self._counts["rows"]

    def status(self) -> dict[str, Any]:
        """Return the contents of the buffers and the counters of the run."""
        return {
            "held": {
                buffer_id: {"rows": buffer.count(), "chunks": buffer.chunk_count, **_by_shard(buffer)}
                for buffer_id, buffer in list(self.buffers.items())
            },
            "worker_bytes": self._quota.held(),
            **self._counts,
        }


def _by_shard(buffer: Buffer) -> dict[str, Any]:
    return {"shards": buffer.rows_by_shard()} if isinstance(buffer, ShardedBuffer) else {}


def _batches(buffer: Buffer, demand: Sequence[Mapping[str, int]]) -> list[dict[str, Any]]:
    batches: list[dict[str, Any]] = []
    for size, same in itertools.groupby(demand, lambda one: int(one["batch_size"])):
        iters = [int(one["cur_learner_iter"]) for one in same]
        most = max(1, GROUP_ROWS // size)
        for begin in range(0, len(iters), most):
            wanted = iters[begin : begin + most]
            found = buffer.sample_batches(size, wanted)
            batches += found
            if len(found) < len(wanted):
                return batches
    return batches
