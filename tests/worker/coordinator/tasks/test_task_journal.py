import logging
import multiprocessing
import os
import signal
import sqlite3
import threading

import numpy as np
import pytest

from ding.worker.coordinator.errors import JournalError
from ding.worker.coordinator.tasks.journal import ChunkRow, Journal
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder, TaskPhase

HOLDER = Holder("collector0", "life-1")


def fill(path):
    journal = Journal(path)
    ledger = TaskLedger(journal)
    for number in range(3):
        ledger.submit("collector", {"task_id": f"t{number}", "body": [number]})
    ledger.send("t1", HOLDER)
    journal.save_buffer("b", {"type": "advanced"})
    journal.save_chunks([ChunkRow(1, "b", 0, {"chunk": "c1", "rows": 4})], "t1", HOLDER, 1)
    journal.save_chunks(
        [ChunkRow(2, "b", 4, {"chunk": "c2", "rows": 2}), ChunkRow(3, "b", 6, {"chunk": "c3", "rows": 2})],
        "t1",
        HOLDER,
        3,
    )
    journal.drop_chunks([1])
    journal.save_priorities("b", np.array([4, 5]), np.array([0.1, 1e-9]), np.array([2, 0]))
    journal.save_values({"envstep": 12, "end": False})
    journal.save_values({"envstep": 13})
    return journal


def check(state):
    assert [record.task_id for record in state.tasks] == ["t0", "t1", "t2"]
    assert [record.phase for record in state.tasks] == [TaskPhase.QUEUED, TaskPhase.SENT, TaskPhase.QUEUED]
    assert state.tasks[1].holder == HOLDER
    assert state.tasks[1].attempts == 1
    assert state.tasks[2].body == {"task_id": "t2", "body": [2]}
    assert state.tasks[1].seen == {HOLDER: 3}
    assert [(chunk.number, chunk.ref["chunk"], chunk.first_id) for chunk in state.chunks] == [
        (2, "c2", 4),
        (3, "c3", 6),
    ]
    assert state.buffers == {"b": {"type": "advanced"}}
    ids, priorities, uses = state.priorities["b"]
    assert (ids.tolist(), priorities.tolist(), uses.tolist()) == ([4, 5], [0.1, 1e-9], [2, 0])
    assert state.values == {"envstep": 13, "end": False}
    assert not state.empty


def test_another_journal_of_the_same_file_knows_everything(tmp_path):
    path = str(tmp_path / "coordinator.sqlite")
    fill(path).close()
    journal = Journal(path)
    check(journal.load())
    journal.close()


def _fill_and_die(path):
    fill(path)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_leaves_everything_behind(tmp_path):
    path = str(tmp_path / "coordinator.sqlite")
    process = multiprocessing.get_context("spawn").Process(target=_fill_and_die, args=(path,))
    process.start()
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    journal = Journal(path)
    check(journal.load())
    journal.close()


def test_forgotten_tasks_and_closed_buffers_leave_nothing(tmp_path):
    journal = fill(str(tmp_path / "coordinator.sqlite"))
    for number in range(3):
        journal.forget_task(f"t{number}")
    journal.drop_buffer("b")
    state = journal.load()
    assert (state.tasks, state.chunks, state.buffers, state.priorities) == ([], [], {}, {})
    journal.close()


def test_a_write_that_fails_changes_nothing(tmp_path):
    journal = fill(str(tmp_path / "coordinator.sqlite"))
    with pytest.raises(JournalError, match="cannot be written: UNIQUE"):
        journal.save_chunks([ChunkRow(9, "b", 8, {}), ChunkRow(2, "b", 8, {})], "t1", HOLDER, 9)
    check(journal.load())
    journal.close()


def test_a_new_journal_is_empty_and_a_closed_one_takes_nothing():
    journal = Journal()
    assert journal.load().empty
    journal.close()
    journal.close()
    journal.save_values({"x": 1})


def test_a_journal_of_another_version_or_no_journal_is_refused(tmp_path):
    path = str(tmp_path / "other.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(JournalError, match="version 99"):
        Journal(path)
    noise = tmp_path / "noise.sqlite"
    noise.write_bytes(b"this is no database" * 100)
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal(str(noise))


def test_failures_that_progress_has_made_good_are_not_counted_by_the_next_coordinator(tmp_path):
    path = str(tmp_path / "coordinator.sqlite")
    for life in range(1, 6):
        ledger = TaskLedger(Journal(path), max_failures=2)
        ledger.restore(Journal(path).load())
        if life == 1:
            ledger.submit("learner", {"task_id": "t", "buffer_id": "b"})
        else:
            former = Holder("learner0", f"life-{life - 1}")
            assert ledger.renew("t", former)
            ledger.fence(former, "killed")
            assert ledger.record("t").phase is TaskPhase.QUEUED
            assert ledger.record("t").failures == 1
        holder = Holder("learner0", f"life-{life}")
        ledger.send("t", holder)
        assert ledger.started("t", holder)
        assert ledger.progress("t", holder)


class Full:
    """A journal on a disk that has no space until ``make_space``."""

    def __init__(self, path, **options):
        self.journal = Journal(str(path), **options)
        self._limit(self._pragma("page_count"))

    def _pragma(self, text):
        return self.journal._db.execute(f"PRAGMA {text}").fetchone()[0]

    def _limit(self, pages):
        self._pragma(f"max_page_count={pages}")

    def make_space(self):
        self._limit(1 << 20)


TOO_LARGE = {"text": "x" * 100_000}


def test_a_write_without_space_waits_for_some_and_is_then_done(tmp_path, caplog):
    own = Full(tmp_path / "j.sqlite")
    own.journal.save_values({"small": 1})
    writer = threading.Thread(target=own.journal.save_values, args=[TOO_LARGE], daemon=True)
    with caplog.at_level(logging.WARNING):
        writer.start()
        writer.join(0.6)
        assert writer.is_alive()
    assert caplog.text.count("no space for the journal") == 1
    assert own.journal.load().values == {"small": 1}
    own.make_space()
    writer.join(10.0)
    assert not writer.is_alive()
    assert own.journal.load().values == {"small": 1, **TOO_LARGE}
    own.journal.close()


def test_a_write_without_space_fails_after_the_patience_and_at_once_at_the_end(tmp_path):
    own = Full(tmp_path / "j.sqlite", full_patience_s=0.0)
    with pytest.raises(JournalError, match="is full"):
        own.journal.save_values(TOO_LARGE)
    own = Full(tmp_path / "j2.sqlite", full_patience_s=600.0)
    errors = []

    def write():
        with pytest.raises(JournalError, match="is full") as caught:
            own.journal.save_values(TOO_LARGE)
        errors.append(caught.value)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    own.journal.stop_waiting()
    writer.join(10.0)
    assert len(errors) == 1
    own.journal.save_values({"small": 1})
    assert own.journal.load().values == {"small": 1}


def test_what_a_worker_says_of_an_error_may_be_no_valid_text():
    journal = Journal()
    ledger = TaskLedger(journal)
    ledger.submit("collector", {"task_id": "t"})
    ledger.send("t", HOLDER)
    assert ledger.fail("t", HOLDER, "no file \udcff") is TaskPhase.QUEUED
    assert journal.load().tasks[0].error == "no file \\udcff"
