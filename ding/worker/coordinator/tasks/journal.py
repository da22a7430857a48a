"""Journal of the state that survives a killed coordinator, in one SQLite file.

Once a call returns, its write survives the death of the process (write-ahead log), but not necessarily a power cut,
which would also destroy the data folder of a memory-backed run. All values are stored as JSON, numbers or raw arrays.
"""

import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np

from ding.worker.coordinator.errors import JournalError
from ding.worker.coordinator.tasks.records import Holder, TaskPhase, TaskRecord

log = logging.getLogger(__name__)

#: Names of the values that hold the counters of the buffers and the ledger.
BUFFER_COUNTS, TASK_COUNTS = "buffer_counts", "task_counts"
#: Name of the value with the quarantined worker processes: ``[[worker, process, why], ...]``.
QUARANTINED = "quarantined"
_VERSION = 1
_FULL_PAUSE_S = 0.25
_SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
    task_id TEXT PRIMARY KEY, position INTEGER NOT NULL, kind TEXT NOT NULL, phase TEXT NOT NULL, worker TEXT,
    incarnation TEXT, failures INTEGER NOT NULL, attempts INTEGER NOT NULL, error TEXT NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (
    task_id TEXT NOT NULL, worker TEXT NOT NULL, incarnation TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (task_id, worker, incarnation)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fenced (
    worker TEXT NOT NULL, incarnation TEXT NOT NULL, PRIMARY KEY (worker, incarnation)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unswept (
    worker TEXT NOT NULL, incarnation TEXT NOT NULL, PRIMARY KEY (worker, incarnation)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chunk (
    number INTEGER PRIMARY KEY, buffer_id TEXT NOT NULL, first_id INTEGER NOT NULL, ref TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS buffer (buffer_id TEXT PRIMARY KEY, cfg TEXT NOT NULL, priorities BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS value (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class ChunkRow:
    """A chunk held by a buffer.

    Attributes:
        number: Running number in the run, in push order.
        first_id: Unique id of its first row in the buffer.
        ref: Reference sent by the worker.
    """

    number: int
    buffer_id: str
    first_id: int
    ref: dict[str, Any]


@dataclass
class JournalState:
    """State of an earlier coordinator of the same run.

    Attributes:
        tasks: Tasks in the order of submission.
        fenced: Fenced worker incarnations that are not swept yet.
        unswept: Incarnations that had a task and may have left untaken chunks.
        chunks: Live chunks in push order.
        buffers: ``buffer id -> config``.
        priorities: ``buffer id -> (unique ids, priorities, use counts)``.
        values: Other values by name.
    """

    tasks: list[TaskRecord] = field(default_factory=list)
    fenced: set[Holder] = field(default_factory=set)
    unswept: set[Holder] = field(default_factory=set)
    chunks: list[ChunkRow] = field(default_factory=list)
    buffers: dict[str, dict[str, Any]] = field(default_factory=dict)
    priorities: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether there was no earlier coordinator."""
        return not (self.tasks or self.chunks or self.values)


class Journal:
    """Journal of one run. Thread-safe; every method is one transaction.

    If the disk is full, writers wait for space: an event that is not journaled has not happened.

    Args:
        path: Path of the file; ``':memory:'`` is not persistent.
        full_patience_s: Seconds to wait for disk space.

    Raises:
        JournalError: The journal cannot be opened, or another version of this package wrote it. Methods raise it if the
            journal cannot be read or written.
    """

    def __init__(self, path: str = ":memory:", full_patience_s: float = 600.0) -> None:
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._path = path
        self._full_patience_s = full_patience_s
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5.0)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise JournalError(f"{path} is a journal of version {version}; this package writes {_VERSION}")
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA user_version={_VERSION}")
        except sqlite3.Error as error:
            raise JournalError(f"the journal {path} cannot be opened: {error}") from error
        self._closed = False

    def stop_waiting(self) -> None:
        """Fail at once if there is no disk space from now on."""
        self._closing.set()

    def close(self) -> None:
        """Close the file. Repeated calls have no effect."""
        self.stop_waiting()
        with self._lock:
            if not self._closed:
                self._closed = True
                self._db.close()

    def _write(self, statements: Sequence[tuple[str, Sequence[Sequence[Any]]]]) -> None:
        """Run ``(sql, rows)`` pairs in one transaction. A closed journal ignores them."""
        deadline: float | None = None
        while True:
            try:
                with self._lock:
                    if not self._closed:
                        self._transact(statements)
            except (sqlite3.Error, UnicodeError) as error:
                if deadline is None:
                    deadline = time.monotonic() + self._full_patience_s
                    if _is_full(error):
                        log.warning("no space for the journal %s, waiting for some", self._path)
                if not _is_full(error) or time.monotonic() >= deadline or self._closing.wait(_FULL_PAUSE_S):
                    raise JournalError(f"the journal {self._path} cannot be written: {error}") from error
            else:
                return

    def _transact(self, statements: Sequence[tuple[str, Sequence[Sequence[Any]]]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for sql, rows in statements:
                self._db.executemany(sql, rows)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    # ------------------------------------------------------------------ tasks

    def save_task(self, record: TaskRecord) -> None:
        """Save a new task with the message to its worker."""
        self._write([(
            "INSERT OR REPLACE INTO task VALUES (?, (SELECT COALESCE(MAX(position), 0) + 1 FROM task),"
            " ?, ?, ?, ?, ?, ?, ?, ?)",
            [(record.task_id, record.kind, *_changing(record), json.dumps(record.body))],
        )])  # fmt: skip

    def update_tasks(self, records: Sequence[TaskRecord], fenced: Collection[Holder] = ()) -> None:
        """Save the state of known tasks, together with fenced incarnations.

        The holder of a task is marked as unswept.
        """
        holders = [one.holder for one in records if one.holder is not None]
        self._write([
            ("INSERT OR IGNORE INTO unswept VALUES (?, ?)", [astuple(holder) for holder in holders]),
            (
                "UPDATE task SET phase=?, worker=?, incarnation=?, failures=?, attempts=?, error=? WHERE task_id=?",
                [(*_changing(record), record.task_id) for record in records],
            ),
            ("INSERT OR IGNORE INTO fenced VALUES (?, ?)", [astuple(holder) for holder in fenced]),
        ])  # fmt: skip

    def forget_fenced(self, holders: Collection[Holder]) -> None:
        """Remove fenced incarnations that have left no chunks."""
        self._write([
            (f"DELETE FROM {table} WHERE worker=? AND incarnation=?", [astuple(holder) for holder in holders])
            for table in ("fenced", "unswept")
        ])  # fmt: skip

    def forget_task(self, task_id: str) -> None:
        """Remove a task and the sequence numbers of its workers."""
        self._write(
            [("DELETE FROM task WHERE task_id=?", [(task_id,)]), ("DELETE FROM seen WHERE task_id=?", [(task_id,)])]
        )

    # ------------------------------------------------------------------ data

    def save_chunks(
        self,
        chunks: Sequence[ChunkRow],
        task_id: str,
        holder: Holder,
        seq: int,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Save chunks taken by a buffer, with the sequence number received from the worker and the updated counters."""
        self._write([
            (
                "INSERT INTO chunk VALUES (?, ?, ?, ?)",
                [(one.number, one.buffer_id, one.first_id, json.dumps(one.ref)) for one in chunks],
            ),
            (
                "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)",
                [(task_id, holder.worker, holder.incarnation, seq)],
            ),
            (
                "INSERT OR REPLACE INTO value VALUES (?, ?)",
                [] if counts is None else [(BUFFER_COUNTS, json.dumps(dict(counts)))],
            ),
        ])  # fmt: skip

    def drop_chunks(self, numbers: Sequence[int]) -> None:
        """Remove chunks that no buffer holds any more."""
        self._write([("DELETE FROM chunk WHERE number=?", [(number,) for number in numbers])])

    def save_buffer(self, buffer_id: str, cfg: Mapping[str, Any]) -> None:
        """Save a new buffer."""
        self._write([("INSERT OR REPLACE INTO buffer VALUES (?, ?, NULL)", [(buffer_id, json.dumps(cfg))])])

    def save_priorities(self, buffer_id: str, ids: np.ndarray, priorities: np.ndarray, uses: np.ndarray) -> None:
        """Save a snapshot: int64 ids, float64 priorities and int64 use counts, each ``[N]``."""
        table = np.stack([ids.astype("<f8"), priorities.astype("<f8"), uses.astype("<f8")])
        self._write([("UPDATE buffer SET priorities=? WHERE buffer_id=?", [(table.tobytes(), buffer_id)])])

    def drop_buffer(self, buffer_id: str) -> None:
        """Remove a closed buffer and its chunks."""
        self._write([
            ("DELETE FROM buffer WHERE buffer_id=?", [(buffer_id,)]),
            ("DELETE FROM chunk WHERE buffer_id=?", [(buffer_id,)]),
        ])  # fmt: skip

    def save_values(self, values: Mapping[str, Any]) -> None:
        """Save named JSON values."""
        self._write([(
            "INSERT OR REPLACE INTO value VALUES (?, ?)",
            [(name, json.dumps(value)) for name, value in values.items()],
        )])  # fmt: skip

    # ------------------------------------------------------------------ reading

    def load(self) -> JournalState:
        """Return the content of the journal.

        Raises:
            JournalError: The journal is damaged.
        """
        with self._lock:
            try:
                return self._load()
            except (sqlite3.Error, ValueError, TypeError) as error:
                raise JournalError(f"the journal {self._path} is damaged: {error}") from error

    def _load(self) -> JournalState:
        db, state = self._db, JournalState()
        tasks = db.execute(
            "SELECT task_id, kind, phase, worker, incarnation, failures, attempts, error, body FROM task"
            " ORDER BY position"
        )
        for task_id, kind, phase, worker, incarnation, failures, attempts, error, body in tasks:
            holder = None if worker is None else Holder(worker, incarnation)
            record = TaskRecord(task_id, kind, json.loads(body), phase=TaskPhase(phase), holder=holder)
            record.failures, record.attempts, record.error = failures, attempts, error
            taken = db.execute("SELECT worker, incarnation, seq FROM seen WHERE task_id=?", [task_id])
            record.seen = {Holder(worker, incarnation): seq for worker, incarnation, seq in taken}
            state.tasks.append(record)
        state.fenced = {Holder(*row) for row in db.execute("SELECT worker, incarnation FROM fenced")}
        state.unswept = {Holder(*row) for row in db.execute("SELECT worker, incarnation FROM unswept")}
        for number, buffer_id, first_id, ref in db.execute("SELECT * FROM chunk ORDER BY number"):
            state.chunks.append(ChunkRow(number, buffer_id, first_id, json.loads(ref)))
        for buffer_id, cfg, blob in db.execute("SELECT * FROM buffer"):
            state.buffers[buffer_id] = json.loads(cfg)
            if blob is not None:
                ids, priorities, uses = np.frombuffer(blob, "<f8").reshape(3, -1)
                state.priorities[buffer_id] = ids.astype(np.int64), priorities.copy(), uses.astype(np.int64)
        state.values = {name: json.loads(value) for name, value in db.execute("SELECT * FROM value")}
        return state


def copy_journal(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> JournalState:
    """Copy the journal of a run, which may be in use, and return the content of the copy.

    Raises:
        JournalError: The journal cannot be read or written.
    """
    try:
        with (
            contextlib.closing(sqlite3.connect(source)) as here,
            contextlib.closing(sqlite3.connect(target)) as there,
        ):
            here.backup(there)
            there.execute("PRAGMA journal_mode=DELETE")  # a single file without a write-ahead log
    except sqlite3.Error as error:
        raise JournalError(f"the journal {os.fspath(source)} cannot be copied: {error}") from error
    journal = Journal(os.fspath(target))
    try:
        return journal.load()
    finally:
        journal.close()


def forget_workers(path: str | os.PathLike[str], lost_chunks: Collection[str]) -> None:
    """Prepare the journal of a run without live processes: requeue the tasks and remove lost chunks.

    Raises:
        JournalError: The journal cannot be read or written.
    """
    journal = Journal(os.fspath(path))
    try:
        state = journal.load()
        for record in state.tasks:
            record.phase = record.phase if record.phase.final else TaskPhase.QUEUED
            record.holder, record.failures = None, 0
        journal.update_tasks(state.tasks)
        journal.forget_fenced(state.fenced)
        journal.save_values({QUARANTINED: []})
        journal.drop_chunks([chunk.number for chunk in state.chunks if chunk.ref["chunk"] in lost_chunks])
    finally:
        journal.close()


def _is_full(error: Exception) -> bool:
    """Return whether the write may succeed later; older Python versions report this only in the message."""
    return isinstance(error, sqlite3.OperationalError) and "full" in str(error)


def _changing(record: TaskRecord) -> tuple[Any, ...]:
    holder = (None, None) if record.holder is None else astuple(record.holder)
    # Text from a worker, e.g. a file name, may contain lone surrogates, which cannot be encoded.
    error = record.error.encode(errors="backslashreplace").decode()
    return record.phase.value, *holder, record.failures, record.attempts, error
