"""The buffer of an on-policy run: a learner gets the rows that its newest policy collected, each once.

A *round* begins when the learner asks for the rows of a version and ends when it gets them, all in one batch. During a
round collectors are *granted* steps with that version, as many as are missing, shared out evenly; without a grant they
wait. So no row is collected that nobody learns from, and none by an older policy. What a lost collector was granted and
did not send is granted to another.

Rows of another version come after a fault only (a learner that was killed goes on from an older version, a coordinator
from its journal): they are dropped and counted.
"""

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ding.worker.coordinator.buffers.metadata_buffer import ChunkHolder, ChunkTable, checked_ref, collect_iter_of


@dataclass(frozen=True)
class Grant:
    """What a collector may do.

    Attributes:
        id: running number: a grant that comes twice is one.
        version: train iteration of the policy to act with.
        steps: env steps to make, after which all of them are sent.
    """

    id: int
    version: int
    steps: int


class OnPolicyBuffer(ChunkHolder):
    """Chunks of the version that the learner waits for; see the module. Thread-safe.

    It has the methods of a :class:`~ding.worker.coordinator.buffers.metadata_buffer.MetadataBuffer` that a buffer
    manager needs. ``release``, ``stale`` and ``changed`` are called by the thread that caused it.

    Args:
        release: called with the refs of chunks that nobody needs any more.
        first_batch: running number of the first batch and of the first grant.
        stale: called with the number of rows that are dropped because they are of another version.
        changed: called when there may be new grants.
    """

    replay_buffer_size = 0

    def __init__(
        self,
        release: Callable[[list[dict[str, Any]]], None],
        first_batch: int = 1,
        stale: Callable[[int], None] = lambda rows: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(ChunkTable(release, first_batch), threading.RLock())
        self._stale = stale
        self._changed = changed
        self._held: list[tuple[int, dict[str, Any]]] = []
        # The version of the round, and its size in rows; None between two rounds.
        self._version: int | None = None
        self._size = 0
        # The collectors that there are, and what of their grants has not arrived.
        self._collectors: set[Hashable] = set()
        self._grants: dict[Hashable, Grant] = {}
        self._next_grant = first_batch
        self.next_unique_id = 0

    # ------------------------------------------------------------------ collectors

    def grant(self, collector: Hashable) -> Grant | None:
        """What a collector may do now: the same again until its rows have arrived; ``None``: it waits.

        Args:
            collector: any id. A process that goes on with the task of another needs one of its own.
        """
        with self._lock:
            self._collectors.add(collector)
            if self._version is None:
                return None
            own = self._grants.get(collector)
            if own is None:
                missing = self._size - self.count() - sum(grant.steps for grant in self._grants.values())
                steps = min(missing, -(-self._size // len(self._collectors)))
                if steps <= 0:
                    return None
                own = self._grants[collector] = Grant(self._next_grant, self._version, steps)
                self._next_grant += 1
            return own

    def leave(self, collector: Hashable) -> None:
        """A collector has no more to send: what it was granted is free for others."""
        with self._lock:
            self._collectors.discard(collector)
            self._grants.pop(collector, None)
        self._changed()

    def admit(self, refs: Sequence[Mapping[str, Any]]) -> int:
        """How many of these chunks may be pushed: all, since only what was granted is collected."""
        return len(refs)

    def push_chunks(self, refs: Sequence[Mapping[str, Any]], cur_collector_envstep: int = -1) -> int:
        """Take chunks ``{'chunk', 'rows', 'collect_iter'}``, each of one version; ``grant``: what it completes.

        Returns:
            Number of rows that were offered.

        Raises:
            ValueError: a ref is not what :func:`checked_ref` asks for.
        """
        checked = [checked_ref(ref) for ref in refs]
        rows: int = sum(ref["rows"] for ref in checked)
        with self._lock:
            self._held += zip(self._chunks.add(checked).tolist(), checked)
            self.next_unique_id += rows
            complete = {ref.get("grant") for ref in checked}
            self._grants = {who: grant for who, grant in self._grants.items() if grant.id not in complete}
            if self._version is not None:
                self._drop_other_versions(self._version)
        return rows

    def _drop_other_versions(self, version: int) -> None:
        others = [entry for entry in self._held if collect_iter_of(entry[1]) != version]
        if others:
            self._held = [entry for entry in self._held if collect_iter_of(entry[1]) == version]
            self._drop(others)
            self._stale(sum(ref["rows"] for _, ref in others))

    def _drop(self, entries: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        self._chunks.drop_rows(_each_row(entries))
        self._chunks.release_unused()

    # ------------------------------------------------------------------ the learner

    def sample_batches(self, size: int, iters: Sequence[int]) -> list[dict[str, Any]]:
        """Begin the round of version ``iters[0]``, unless it has begun; its batch, once there are ``size`` rows.

        Returns:
            Nothing, or one batch: ``batch`` (running number), ``chunks`` (ids) and ``rows`` (int64 ``[B, 2]``: position
            in ``chunks``, row there; B is ``size`` or somewhat more). The rows of a chunk follow each other. The chunks
            stay until :meth:`batch_loaded` is called with its number.
        """
        if not iters:
            return []
        with self._lock:
            begins = self._version != iters[0]
            self._size = size
            if begins:
                self._version = iters[0]
                self._grants.clear()
                self._drop_other_versions(self._version)
            batches = [self._end_round()] if self.count() >= size else []
        if begins and not batches:
            self._changed()
        return batches

    def _end_round(self) -> dict[str, Any]:
        entries, self._held, self._version = self._held, [], None
        batch, ids = self._chunks.hold(np.array([number for number, _ in entries]))
        rows = [
            np.stack([np.full(ref["rows"], place), np.arange(ref["rows"])], axis=1)
            for place, (_, ref) in enumerate(entries)
        ]
        self._drop(entries)
        return {"batch": batch[0], "chunks": ids, "rows": np.concatenate(rows)}

    def drop_chunk(self, chunk: str) -> int:
        """Forget a chunk whose data cannot be read; returns the number of rows that it held."""
        with self._lock:
            found = [entry for entry in self._held if entry[1]["chunk"] == chunk]
            self._held = [entry for entry in self._held if entry[1]["chunk"] != chunk]
            self._drop(found)
        self._changed()
        return sum(ref["rows"] for _, ref in found)

    # ------------------------------------------------------------------ as any buffer of a coordinator

    def count(self) -> int:
        """Number of rows that wait for the end of the round."""
        return sum(ref["rows"] for _, ref in self._held)

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
        """The classic form is not known here.

        Raises:
            TypeError: always.
        """
        raise TypeError("an on-policy run takes chunks of rows, not metadata of single segments")

    def sample(self, batch_size: int, cur_learner_iter: int) -> None:
        """Raises as :meth:`push`."""
        self.push(None)

    def update(self, info: Mapping[str, Any]) -> None:
        """There are no priorities: each row is used once."""

    def close(self) -> None:
        """Remove all rows; their chunks are released unless a batch with them is on its way."""
        with self._lock:
            entries, self._held, self._version = self._held, [], None
            self._drop(entries)

    def restore_chunks(self, refs: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Push what an earlier buffer held: ``(unique id of the first row, ref)`` in the order of the pushes."""
        for first_id, ref in refs:
            self.next_unique_id = max(self.next_unique_id, first_id)
            self.push_chunks([ref])


def _each_row(entries: Sequence[tuple[int, Mapping[str, Any]]]) -> np.ndarray:
    """The number of its chunk for each row."""
    counts = [ref["rows"] for _, ref in entries]
    return np.repeat(np.array([number for number, _ in entries], dtype=np.int64), counts)
