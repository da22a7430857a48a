"""Replay buffer of a coordinator with its rows in several shards.

The buffer tracks chunks and counts their uses; a shard indexes the rows of its chunks and their priorities. Sampling
equals that of a single buffer with the same rows: the sum of all weights is divided into as many equal strata as a
batch has rows, one point is drawn in each, and the shards look up the rows of these points.

*Loss of a shard.* Its rows leave the buffer, and their chunks are deleted once no learner reads them. They are counted
(``lost_rows``, ``lost_shards``), as are later priorities for them (``dropped_updates``). Batches in flight stay
complete, because their data is in the planes. A new shard is empty and receives all new rows until it has as many as
the others. While there is no shard, nothing is admitted: collectors keep their data.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ding.data.replay.checks import positive_int
from ding.data.replay.index import read_update
from ding.data.replay.priorities import Draws, Priorities
from ding.utils import deep_merge_dicts
from ding.worker.coordinator.buffers.limits import JointLimits
from ding.worker.coordinator.buffers.metadata_buffer import ChunkTable, checked_ref, collect_iter_of
from ding.worker.coordinator.shards.messages import Answer, Draw, Drop, Expire, Push, Report, Restore, ShardLink, Update
from ding.worker.coordinator.shards.places import Places
from ding.worker.coordinator.shards.shard import Shard, ShardSpec
from ding.worker.replay_buffer.advanced_buffer import AdvancedReplayBuffer

Connect = Callable[[ShardSpec], ShardLink]
"""Returns a new, empty shard; raises `ShardLost` if none is available."""

_RETRY_S = 0.2
_RESTORE_PATIENCE_S = 30.0
# Approximate number of rows per message that restores priorities.
_ROWS_OF_A_MESSAGE = 1 << 18


class ShardedBuffer:
    """Prioritised buffer with elements ``(chunk, row)``, in shards.

    Implements the methods of :class:`~ding.worker.coordinator.buffers.metadata_buffer.MetadataBuffer` that a buffer
    manager uses. Limits and counts refer to the sum of all shards. Thread-safe: each shard processes one message at a
    time. ``release`` is called under the buffer's lock, by the thread that caused it.

    Args:
        cfg: Config of an advanced buffer with the key ``shards``; ``type: naive`` samples uniformly.
        buffer_id: Id of the buffer in the run.
        exp_name: Experiment directory.
        first_batch: Running number of the first batch.
        release: Called with the refs of unused chunks.
        count: Called with the name of a counter and an increment.
        connect: Provides shards; None: shards in this process.
        retry_s: Seconds between attempts to replace a shard; None: only on :meth:`revive`.
    """

    def __init__(
        self,
        cfg: Mapping[str, Any],
        buffer_id: str = "buffer",
        exp_name: str = "default_experiment",
        first_batch: int = 1,
        release: Callable[[list[dict[str, Any]]], None] = lambda refs: None,
        count: Callable[[str, int], None] = lambda name, number: None,
        connect: Connect | None = None,
        retry_s: float | None = _RETRY_S,
    ) -> None:
        whole = deep_merge_dicts(AdvancedReplayBuffer.config, dict(cfg))
        shards = positive_int(cfg["shards"], "shards")
        self._size = -(-positive_int(whole["replay_buffer_size"], "replay_buffer_size") // shards)
        self._limits = JointLimits(whole, self._size * shards)
        self._expires = float(whole["max_staleness"]) < math.inf
        # Whether a batch depends on earlier ones.
        self._one_by_one = self._expires or float(whole["max_use"]) < math.inf
        self._draws = Draws()
        self._betas = Priorities(1, whole["alpha"], whole["beta"], whole["anneal_step"]).next_betas
        self._count = count
        self._turn = 0
        self._largest = 1.0
        #: Running number of the next row.
        self.next_unique_id = 0

        def new_shard(number: int) -> ShardLink:
            return (connect or Shard)(ShardSpec(dict(cfg), buffer_id, number, self._size, exp_name))

        self._places = Places(shards, new_shard, lambda: ChunkTable(release, first_batch), self._note_lost, retry_s)
        self._lock = self._places.lock

    def _note_lost(self, number: int, rows: int) -> None:
        self._count("lost_shards", 1)
        self._count("lost_rows", rows)

    # ------------------------------------------------------------------ push

    def admit(self, refs: Sequence[Mapping[str, Any]]) -> int:
        """Return how many of these chunks, from the first on, may be pushed now; see `MetadataBuffer.admit`."""
        with self._lock:
            return self._limits.admit([int(ref["rows"]) for ref in refs]) if self._places.present else 0

    def push_chunks(self, refs: Sequence[Mapping[str, Any]], cur_collector_envstep: int = -1) -> int:
        """Push all rows of chunks; see `MetadataBuffer.push_chunks`. Admitted chunks are never refused.

        On return the shards have the rows. Rows in transit to a lost shard are lost.
        """
        checked = [checked_ref(ref) for ref in refs]
        with self._lock:
            self._limits.pushed([ref["rows"] for ref in checked])
            entries = []
            for ref in checked:
                entries.append((self.next_unique_id, ref))
                self.next_unique_id += ref["rows"]
            self._push(entries)
        return sum(ref["rows"] for ref in checked)

    def restore_chunks(self, refs: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Push the content of an earlier buffer: ``(unique id of the first row, ref)`` in push order."""
        self._places.wait_for_all(_RESTORE_PATIENCE_S)
        entries = [(first_id, checked_ref(ref)) for first_id, ref in refs]
        with self._lock:
            self._limits.restored(sum(ref["rows"] for _, ref in entries))
            for first_id, ref in entries:
                self.next_unique_id = max(self.next_unique_id, first_id + ref["rows"])
            self._push(entries)

    def _push(self, entries: Sequence[tuple[int, dict[str, Any]]]) -> None:
        """Assign each chunk to the shard with the fewest rows, in turn if these are equal."""
        places = self._places.all
        fill = {number: places[number].last.rows for number in self._places.present or range(len(places))}
        parts: dict[int, list[tuple[int, dict[str, Any]]]] = {}
        for entry in entries:
            number = min(fill, key=lambda one: (fill[one], (one - self._turn) % len(places)))
            fill[number] = min(fill[number] + entry[1]["rows"], self._size)
            self._turn = (number + 1) % len(places)
            parts.setdefault(number, []).append(entry)
        self._note_largest(self._places.ask({number: self._message(number, part) for number, part in parts.items()}))
        self._places.release_unused()

    def _message(self, number: int, entries: Sequence[tuple[int, dict[str, Any]]]) -> Push:
        refs = [ref for _, ref in entries]
        given = [ref.get("priority") for ref in refs]
        priority = [np.full(ref["rows"], np.nan if one is None else one) for ref, one in zip(refs, given)]
        return Push(
            chunks=self._places.all[number].chunks.add(refs),
            first_ids=np.array([first_id for first_id, _ in entries], dtype=np.int64),
            rows=np.array([ref["rows"] for ref in refs], dtype=np.int64),
            iters=np.array([collect_iter_of(ref) for ref in refs], dtype=np.int64),
            priority=np.zeros(0) if all(one is None for one in given) else np.concatenate(priority),
            largest=self._largest,
        )

    def _note_largest(self, answers: Mapping[int, Answer]) -> None:
        self._largest = max([self._largest, *(answer.largest for answer in answers.values())])

    # ------------------------------------------------------------------ sample

    def sample_batches(self, size: int, iters: Sequence[int]) -> list[dict[str, Any]]:
        """Draw batches for a learner; see `MetadataBuffer.sample_batches`, with the same result.

        ``buffer_idx`` is the slot in the concatenation of all shards.
        """
        batches: list[dict[str, Any]] = []
        with self._lock:
            for group in [[one] for one in iters] if self._one_by_one else [list(iters)]:
                if self._expires:
                    self._places.ask_all(Expire(group[0]))
                drawn = self._draw(size, group)
                batches += drawn
                if len(drawn) < len(group):
                    break
            self._places.release_unused()
        return batches

    def _draw(self, size: int, iters: list[int]) -> list[dict[str, Any]]:
        places = self._places.all
        while True:
            iters = iters[: self._limits.batches(size, len(iters), self._places.rows)]
            if not iters:
                return []
            smallest = min(place.last.smallest for place in places)
            masses = np.array([place.last.mass for place in places])
            begins = np.concatenate([[0.0], masses.cumsum()])
            points = np.concatenate([self._draws.stratified(size) for _ in iters]) * (begins[-1] / size)
            # Rounding may yield the end point, which belongs to no shard.
            owner = np.minimum(begins[1:].searchsorted(points, "right"), np.flatnonzero(masses)[-1])
            asked = {int(number): np.flatnonzero(owner == number) for number in np.unique(owner)}
            answers = self._places.ask({
                number: Draw(
                    points=points[at] - begins[number],
                    sizes=np.bincount(at // size, minlength=len(iters)),
                    iters=np.array(iters, dtype=np.int64),
                )
                for number, at in asked.items()
            })  # fmt: skip
            if len(answers) == len(asked):
                break  # otherwise a shard was lost: sample again from the others
        self._limits.sampled(size, len(iters))
        weights_of = smallest, np.repeat(self._betas(len(iters)), size)
        return self._batches(size, len(iters), asked, answers, *weights_of)

    def _batches(
        self,
        size: int,
        count: int,
        asked: Mapping[int, np.ndarray],
        answers: Mapping[int, Answer],
        smallest: float,
        betas: np.ndarray,
    ) -> list[dict[str, Any]]:
        """Assemble batches from the samples of the shards, and hold their chunks."""
        chunks: list[str] = []
        columns: dict[str, np.ndarray] = {"rows": np.empty((size * count, 2), dtype=np.int64)}
        running: list[int] = []
        for number, place in enumerate(self._places.all):
            at = asked.get(number, np.zeros(0, dtype=np.int64))
            found = answers[number].columns if number in answers else {"chunk": at}
            numbers, positions = np.unique(found["chunk"], return_inverse=True)
            # In each place, so that all places count the same batches.
            running, ids = place.chunks.hold(numbers, count)
            if not len(at):
                continue
            columns["rows"][at] = np.stack([positions + len(chunks), found["row"]], axis=1)
            chunks += ids
            own = {
                "unique_id": found["unique_id"],
                "buffer_idx": found["slot"] + number * self._size,
                "priority": found["priority"],
                "IS": (smallest / found["weight"]) ** betas[at],
                "staleness": found["staleness"],
                "use": found["use"],
            }
            for name, column in own.items():
                columns.setdefault(name, np.empty(size * count, dtype=column.dtype))[at] = column
        return [
            {
                "batch": batch,
                "chunks": chunks,
                **{name: column[at * size : (at + 1) * size] for name, column in columns.items()},
            }
            for at, batch in enumerate(running)
        ]

    def batch_loaded(self, batch: int) -> None:
        """Record that the learner has the data of all batches up to this running number."""
        self._let_go(batch)

    def drop_batches(self) -> None:
        """Drop all batches in flight, because the learner is disconnected."""
        self._let_go(None)

    def _let_go(self, batch: int | None) -> None:
        with self._lock:
            for place in self._places.all:
                place.chunks.let_go(batch)
            self._places.release_unused()

    def update(self, info: Mapping[str, Any]) -> None:
        """Set the priorities of sampled rows; see `AdvancedReplayBuffer.update`. Updates of lost rows are counted."""
        if not info or "priority" not in info:
            return
        ids, slots, priority = read_update(info, "buffer")
        owner = slots // self._size
        with self._lock:
            asked = {}
            for number in self._places.present:
                at = np.flatnonzero(owner == number)
                if len(at):
                    asked[number] = Update(ids[at], slots[at] % self._size, priority[at])
            answers = self._places.ask(asked)
            self._note_largest(answers)
            taken = sum(len(asked[number].ids) - answer.dropped for number, answer in answers.items())
            self._count("dropped_updates", len(ids) - taken)
            self._places.release_unused()

    # ------------------------------------------------------------------ contents

    def drop_chunk(self, chunk: str) -> int:
        """Remove an unreadable chunk; return the number of its rows."""
        removed = 0
        with self._lock:
            for place_number, place in enumerate(self._places.all):
                number = place.chunks.number_of(chunk)
                if number is not None:
                    before = place.last.rows
                    answers = self._places.ask({place_number: Drop(number)})
                    removed += sum(before - answer.rows for answer in answers.values())
            self._places.release_unused()
        return removed

    @property
    def replay_buffer_size(self) -> int:
        """Total capacity of the shards, in rows."""
        return self._size * len(self._places.all)

    def count(self) -> int:
        """Return the number of rows."""
        return self._places.rows

    def rows_by_shard(self) -> list[int | None]:
        """Return the number of rows of each shard; None for a missing shard."""
        return [None if place.link is None else place.last.rows for place in self._places.all]

    def holds(self, chunk: str) -> bool:
        """Return whether a chunk is still in use."""
        with self._lock:
            return any(chunk in place.chunks for place in self._places.all)

    @property
    def chunk_count(self) -> int:
        """Return the number of chunks in use."""
        return sum(len(place.chunks) for place in self._places.all)

    def revive(self) -> None:
        """Try to replace lost shards now."""
        self._places.revive()

    def priorities(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return unique ids, priorities and use counts of the rows."""
        with self._lock:
            found = [answer.columns for answer in self._places.ask_all(Report()).values()]
            self._places.release_unused()
        empty = {"ids": np.zeros(0, dtype=np.int64), "priorities": np.zeros(0), "uses": np.zeros(0, dtype=np.int64)}
        ids, values, uses = (np.concatenate([part[name] for part in [empty, *found]]) for name in empty)
        return ids, values, uses

    def restore_priorities(self, ids: np.ndarray, priorities: np.ndarray, uses: np.ndarray) -> None:
        """Restore :meth:`priorities` of an earlier buffer, for rows that still exist."""
        with self._lock:
            for begin in range(0, len(ids), _ROWS_OF_A_MESSAGE):
                part = slice(begin, begin + _ROWS_OF_A_MESSAGE)
                self._note_largest(self._places.ask_all(Restore(ids[part], priorities[part], uses[part])))
            self._places.release_unused()

    def close(self) -> None:
        """Remove all rows and accept no more; their chunks are released unless a batch in flight contains them."""
        self._places.close()

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
        """Reject the classic form.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a buffer with shards takes chunks of rows, not metadata of single segments")

    def sample(self, batch_size: int, cur_learner_iter: int) -> None:
        """Raise like :meth:`push`."""
        self.push(None)
