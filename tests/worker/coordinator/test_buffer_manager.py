"""The buffers of a coordinator, closed while other threads use them."""

import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from parallel_fakes import RecordingPlane

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.parallel.planes import FileDataPlane, StorageDenied, open_planes
from ding.worker.coordinator.buffer_manager import BufferManager
from ding.worker.coordinator.buffers.admission import WorkerQuota
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder

HOLDER = Holder("c0", "life1")


class Opened:
    """A buffer manager with one open buffer, and a collector task that is sent."""

    def __init__(self, path=":memory:", plane=None, max_worker_bytes=0):
        self.journal, self.plane = Journal(path), plane or RecordingPlane()
        self.ledger = TaskLedger(self.journal)
        self.ledger.submit("collector", {"task_id": "task", "buffer_id": "b"})
        self.ledger.send("task", HOLDER)
        quota = WorkerQuota(max_worker_bytes)
        self.manager = BufferManager(self.journal, self.ledger, self.plane, "exp", quota)
        self.manager.open("b", {"type": "advanced", "replay_buffer_size": 100})

    def take(self, *numbers):
        refs = [{"chunk": f"chunk{number}", "rows": 4, "seq": number} for number in numbers]
        return self.manager.take("task", "b", HOLDER, refs)


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("end", ["shut", "close"])
def test_a_buffer_that_is_pushed_to_is_closed_after_that(end):
    own = Opened()
    buffer = own.manager.buffers["b"]
    closer = threading.Thread(
        target=own.manager.shut if end == "shut" else own.manager.close, args=["b"][: end == "shut"]
    )
    admit = buffer.admit

    def admit_while_closed(refs):
        closer.start()
        closer.join(0.1)
        assert closer.is_alive()
        return admit(refs)

    buffer.admit = admit_while_closed
    assert own.take(1, 2) == 2
    closer.join(10.0)
    assert not closer.is_alive()
    assert own.manager.status()["rows"] == 8
    assert own.manager.buffers == {}
    # A closed manager leaves files and journal to a coordinator that goes on.
    assert own.plane.released == (["chunk1", "chunk2"] if end == "shut" else [])
    assert len(own.journal.load().chunks) == (0 if end == "shut" else 2)


def test_data_for_a_buffer_that_was_shut_is_deleted_and_acknowledged():
    own = Opened()
    own.manager.shut("b")
    assert own.take(1, 2) == 2
    assert own.plane.released == ["chunk1", "chunk2"]
    assert own.manager.status()["dropped_chunks"] == 2
    assert not own.manager.push("b", {"data_id": "d"})


def test_chunks_of_the_dead_that_no_buffer_has_are_swept():
    own = Opened()
    refs = [{"chunk": f"dead-{number}.0badc0de", "rows": 4, "seq": number} for number in (1, 2)]
    assert own.manager.take("task", "b", HOLDER, refs) == 2
    own.plane.stored = [*(ref["chunk"] for ref in refs), "dead-3.0badc0de", "dead-4.0badc0de", "dead-er-1.0badc0de"]
    assert own.manager.sweep({"dead", "other"}) == 2
    assert own.plane.released == ["dead-3.0badc0de", "dead-4.0badc0de"]
    assert own.manager.sweep(set()) == 0
    own.manager.close()
    assert own.manager.sweep({"dead-er"}) == 0


def test_a_closed_manager_takes_nothing_and_deletes_nothing():
    own = Opened()
    assert own.take(1) == 1
    own.manager.close()
    assert own.take(1, 2, 3) == 1
    assert own.plane.released == []
    assert [chunk.ref["chunk"] for chunk in own.journal.load().chunks] == ["chunk1"]


def test_a_worker_that_lies_about_a_chunk_does_not_spoil_the_journal(tmp_path):
    own = Opened(str(tmp_path / "j.sqlite"))
    assert own.take(1) == 1
    bad = {"chunk": "chunk2", "rows": 4, "seq": 2, "priority": float("nan")}
    with pytest.raises(ValueError, match="finite"):
        own.manager.take("task", "b", HOLDER, [bad])
    assert own.take(1) == 1  # not acknowledged: nothing of it has happened
    own.manager.close()
    own.journal.close()
    journal = Journal(str(tmp_path / "j.sqlite"))
    after = BufferManager(journal, TaskLedger(journal), None, "exp")
    after.restore(journal.load())
    assert after.buffers["b"].count() == 4


class LockedPlane(RecordingPlane):
    """Deletes nothing while ``error`` is set."""

    error = None

    def release(self, refs):
        if self.error is not None:
            raise self.error
        return super().release(refs)


def test_what_cannot_be_deleted_now_goes_later_and_troubles_nobody(caplog):
    plane = LockedPlane()
    own = Opened(plane=plane)
    plane.error = StorageDenied("the folder is read-only")
    own.take(*range(1, 27))  # one chunk more than the buffer has room for
    assert own.manager.status()["released_chunks"] == 1
    assert own.manager.discard(["unknown-1.0badc0de"]) == 0
    assert own.take(27) == 27
    assert plane.released == []
    assert caplog.text.count("cannot be deleted for now") == 1
    plane.error = None
    own.take(28)
    assert plane.released == ["chunk1", "unknown-1.0badc0de", "chunk2", "chunk3"]


class Stored:
    """A buffer over chunks of one row in real planes.

    Args:
        plane: of the worker that holds the task.
    """

    def __init__(self, plane):
        self.plane = plane
        self.own = Opened(plane=plane)

    def put(self):
        return self.plane.put(TransitionBatch.from_rows([{"a": 1.0}]))

    def take(self, *refs):
        numbered = [{"seq": number, **ref} for number, ref in enumerate(refs, 1)]
        return self.own.manager.take("task", "b", HOLDER, numbered)

    @property
    def rows(self):
        return self.own.manager.buffers["b"].count()


@pytest.fixture
def stored(planes_kind, new_root):
    return Stored(open_planes(planes_kind, new_root(), "").data(HOLDER.incarnation))


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"chunk": "ghost-1.0badc0de"}, "'chunk' of a ref must be one that was stored"),
        ({"chunk": "no-checksum"}, "must end with"),
        ({"rows": 4}, "'rows' of ref .* must be 1, found 4"),
        ({"bytes": 10}, "'bytes' of ref .* found 10"),
    ],
)
def test_a_ref_that_is_not_true_is_refused_and_takes_no_place(stored, lie, message):
    good, other = stored.put(), stored.put()
    with pytest.raises(ValueError, match=message):
        stored.take(good, {**other, **lie})
    assert stored.rows == 0
    assert stored.take(good, other) == 2
    assert stored.rows == 2


def test_a_chunk_is_taken_once_under_whatever_number(stored):
    good = stored.put()
    assert stored.take(good) == 1
    with pytest.raises(ValueError, match=r"must be a new one, found .* again"):
        stored.take(good, good)
    assert stored.rows == 1


def test_what_cannot_be_a_chunk_keeps_no_other_from_being_deleted(stored, caplog):
    refs = [stored.put(), stored.put()]
    unknown = [refs[0]["chunk"], "../no-chunk", refs[1]["chunk"]]
    assert stored.own.manager.discard(unknown) == 2
    assert stored.plane.chunks() == []
    assert "a chunk that a worker told of cannot be one" in caplog.text
    assert stored.own.manager.discard([stored.put()["chunk"]]) == 1


def test_what_a_fenced_worker_sends_is_deleted_and_what_it_had_sent_stays(stored):
    taken, late, unsent = stored.put(), stored.put(), stored.put()
    assert stored.take(taken) == 1
    stored.own.ledger.fence(HOLDER, "killed")
    assert stored.take(taken, late) == 2
    assert stored.rows == 1
    assert sorted(stored.plane.chunks()) == sorted([taken["chunk"], unsent["chunk"]])
    # What it never sent goes with what is left of the dead.
    assert stored.own.manager.sweep({HOLDER.incarnation}) == 1
    assert stored.plane.chunks() == [taken["chunk"]]


def test_what_was_acknowledged_and_comes_again_changes_nothing(stored):
    refs = [stored.put() for _ in range(3)]
    assert stored.take(*refs[:2]) == stored.take(*refs[:2]) == 2
    assert stored.take(*refs) == 3
    assert (stored.rows, len(stored.plane.chunks())) == (3, 3)


def test_no_chunk_is_left_of_a_buffer_that_is_shut(stored):
    stored.take(stored.put(), stored.put())
    stored.own.manager.shut("b")
    assert stored.plane.chunks() == []


def test_a_damaged_chunk_is_set_aside_and_what_came_with_it_is_taken(tmp_path):
    stored = Stored(FileDataPlane(tmp_path / "data"))
    refs = [stored.put() for _ in range(3)]
    path = tmp_path / "data" / f"{refs[1]['chunk']}.chunk"
    path.write_bytes(path.read_bytes()[:-1])
    assert stored.take(*refs) == 3
    assert stored.rows == 2
    assert stored.own.manager.status()["broken_rows"] == 1
    path = tmp_path / "data" / f"{stored.put()['chunk']}.chunk"
    path.write_bytes(b"")
    assert stored.take(*refs, {"chunk": path.stem, "rows": 1}) == 4


def test_batches_of_each_further_coordinator_are_newer_than_all_before(tmp_path):
    path = str(tmp_path / "j.sqlite")
    own = Opened(path)
    own.take(1)
    newest = own.manager.sample("b", [{"batch_size": 2, "cur_learner_iter": 0}], 0.0, threading.Event())[0]["batch"]
    own.manager.close()
    own.journal.close()
    for _ in range(3):
        journal = Journal(path)
        manager = BufferManager(journal, TaskLedger(journal), RecordingPlane(), "exp")
        manager.restore(journal.load())
        before = newest
        newest = manager.sample("b", [{"batch_size": 2, "cur_learner_iter": 0}], 0.0, threading.Event())[0]["batch"]
        assert newest > before
        manager.close()
        journal.close()


def of_size(*sizes, first=1, letter="a"):
    return [
        {"chunk": f"{letter}{seq}", "rows": 4, "seq": seq, "bytes": size, "worker": "another"}
        for seq, size in enumerate(sizes, first)
    ]


def test_a_worker_that_has_too_much_data_loses_its_own_oldest(caplog):
    own, other = Opened(max_worker_bytes=100), Holder("c1", "life1")
    own.ledger.submit("collector", {"task_id": "task1", "buffer_id": "b"})
    own.ledger.send("task1", other)
    assert own.manager.take("task1", "b", other, of_size(90, letter="b")) == 1
    assert own.manager.take("task", "b", HOLDER, of_size(40, 40)) == 2
    assert own.plane.released == []
    assert own.manager.take("task", "b", HOLDER, of_size(40, 90, 5, first=3)) == 5
    assert own.plane.released == ["a1", "a2", "a3"]
    status = own.manager.status()
    assert (status["worker_bytes"], status["surplus_rows"]) == ({"c0": 95, "c1": 90}, 12)
    assert caplog.text.count("c0 has more data than max_worker_bytes") == 1
    with pytest.raises(ValueError, match=r"max_worker_bytes is 100, chunk 'a6' has 101"):
        own.manager.take("task", "b", HOLDER, of_size(101, first=6))
    own.manager.shut("b")
    assert own.manager.status()["worker_bytes"] == {}


def test_how_much_data_a_worker_has_is_known_to_the_next_coordinator(tmp_path):
    own = Opened(str(tmp_path / "j.sqlite"), max_worker_bytes=100)
    own.manager.take("task", "b", HOLDER, of_size(30, 30, 30))
    own.manager.close()
    own.journal.close()
    journal, plane = Journal(str(tmp_path / "j.sqlite")), RecordingPlane()
    after = BufferManager(journal, TaskLedger(journal), plane, "exp", WorkerQuota(70))
    after.restore(journal.load())
    assert after.status()["worker_bytes"] == {"c0": 60}
    assert plane.released == ["a1"]
    assert after.buffers["b"].count() == 8


def test_the_quota_of_a_config(tmp_path):
    assert WorkerQuota.of_config("auto", str(tmp_path / "none")).enter(of_size(2**60)) == []
    assert len(WorkerQuota.of_config("auto", str(tmp_path)).enter(of_size(2**60))) == 1
    for wrong in (-1, "8", None, True):
        with pytest.raises(ConfigValueError, match="must be 'auto' or bytes"):
            WorkerQuota.of_config(wrong, "")
