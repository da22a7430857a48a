"""Buffer of an on-policy run: the learner receives each row of its newest policy exactly once.

A *round* starts when the learner requests the rows of a version and ends when it receives them, all in one batch.
During a round, collectors are *granted* the missing steps with that version in equal shares; without a grant they wait.
Thus every collected row is used, and none comes from an older policy. The unused grant of a lost collector is
reassigned.

Rows of another version occur only after a fault (a learner resumed from an older version, or a coordinator from its
journal); they are dropped and counted.
"""

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ding.worker.coordinator.buffers.metadata_buffer import ChunkHolder, ChunkTable, checked_ref, collect_iter_of


@dataclass(frozen=True)
class Grant:
    """Permission for a collector to make env steps.

    Attributes:
        id: Running number; a grant that arrives twice counts once.
        version: Train iteration of the policy to act with.
        steps: Number of env steps, after which all of them are sent.
    """

    id: int
    version: int
    steps: int


class OnPolicyBuffer(ChunkHolder):
    """Chunks of the version that the learner waits for; see the module. Thread-safe.

    Implements the methods of :class:`~ding.worker.coordinator.buffers.metadata_buffer.MetadataBuffer` that a buffer
    manager uses. ``release``, ``stale`` and ``changed`` are called by the thread that caused them.

    Args:
        release: Called with the refs of unused chunks.
        first_batch: Running number of the first batch and of the first grant.
        stale: Called with the number of rows dropped because of another version.
        changed: Called when new grants may be available.
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
        # Version of the round, and its size in rows; None between rounds.
        self._version: int | None = None
        self._size = 0
        # Known collectors, and the outstanding rows of their grants.
        self._collectors: set[Hashable] = set()
        self._grants: dict[Hashable, Grant] = {}
        self._next_grant = first_batch
        self.next_unique_id = 0

    # ------------------------------------------------------------------ collectors

    def grant(self, collector: Hashable) -> Grant | None:
        """Return the current grant of a collector, unchanged until its rows have arrived; ``None``: it must wait.

        Args:
            collector: Any id. A process that takes over another one's task needs its own id.
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
        """Remove a collector; the rest of its grant becomes available to others."""
        with self._lock:
            self._collectors.discard(collector)
            self._grants.pop(collector, None)
        self._changed()

    def admit(self, refs: Sequence[Mapping[str, Any]]) -> int:
        """Admit all chunks, because only granted steps are collected."""
        return len(refs)

    def push_chunks(self, refs: Sequence[Mapping[str, Any]], cur_collector_envstep: int = -1) -> int:
        """Push chunks ``{'chunk', 'rows', 'collect_iter'}`` of one version each; ``grant``: id of a completed grant.

        Returns:
            Number of rows offered.

        Raises:
            ValueError: A ref fails :func:`checked_ref`.
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
        """Start the round of version ``iters[0]``, unless it has started; return its batch once it has ``size`` rows.

        Returns:
            An empty list, or one batch: ``batch`` (running number), ``chunks`` (ids) and ``rows`` (int64 ``[B, 2]``:
                position
            in ``chunks``, row within the chunk; B is at least ``size``). Rows of a chunk are consecutive. The chunks
            are held until :meth:`batch_loaded` is called with its number.
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
        """Remove an unreadable chunk; return the number of its rows."""
        with self._lock:
            found = [entry for entry in self._held if entry[1]["chunk"] == chunk]
            self._held = [entry for entry in self._held if entry[1]["chunk"] != chunk]
            self._drop(found)
        self._changed()
        return sum(ref["rows"] for _, ref in found)

    # ------------------------------------------------------------------ buffer interface

    def count(self) -> int:
        """Return the number of rows that wait for the end of the round."""
        return sum(ref["rows"] for _, ref in self._held)

    def push(self, data: object, cur_collector_envstep: int = -1) -> None:
        """Reject the classic form.

        Raises:
            TypeError: Always.
        """
        raise TypeError("an on-policy run takes chunks of rows, not metadata of single segments")

    def sample(self, batch_size: int, cur_learner_iter: int) -> None:
        """Raise like :meth:`push`."""
        self.push(None)

    def update(self, info: Mapping[str, Any]) -> None:
        """Do nothing: each row is used once, so there are no priorities."""

    def close(self) -> None:
        """Remove all rows; their chunks are released unless a batch in flight contains them."""
        with self._lock:
            entries, self._held, self._version = self._held, [], None
            self._drop(entries)

    def restore_chunks(self, refs: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Push the content of an earlier buffer: ``(unique id of the first row, ref)`` in push order."""
        for first_id, ref in refs:
            self.next_unique_id = max(self.next_unique_id, first_id)
            self.push_chunks([ref])


def _each_row(entries: Sequence[tuple[int, Mapping[str, Any]]]) -> np.ndarray:
    """Return the chunk number of each row."""
    counts = [ref["rows"] for _, ref in entries]
    return np.repeat(np.array([number for number, _ in entries], dtype=np.int64), counts)
