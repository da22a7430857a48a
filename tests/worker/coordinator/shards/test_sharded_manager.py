"""The buffers of a coordinator in shards: what the status and the journal say when a shard is lost."""

import sys
from pathlib import Path

import pytest
from shard_toys import Shards

sys.path.insert(0, str(Path(__file__).parents[1]))
from parallel_fakes import RecordingPlane

from ding.worker.coordinator.buffer_manager import BufferManager
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder

HOLDER = Holder("c0", "life1")


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Opened:
    """A buffer manager over shards, with the task of a collector that is sent."""

    def __init__(self, path=":memory:", plane=None):
        self.journal, self.shards = Journal(path), Shards()
        self.ledger = TaskLedger(self.journal)
        self.manager = BufferManager(self.journal, self.ledger, plane, "exp", shards=self.shards)

    def begin(self):
        self.ledger.submit("collector", {"task_id": "task", "buffer_id": "b"})
        self.ledger.send("task", HOLDER)
        self.manager.open("b", {"type": "advanced", "replay_buffer_size": 100, "shards": 2})
        return self

    def take(self, *numbers):
        refs = [{"chunk": f"chunk{number}", "rows": 4, "seq": number} for number in numbers]
        return self.manager.take("task", "b", HOLDER, refs)

    def close(self):
        self.manager.close()
        self.journal.close()


def test_rows_of_a_lost_shard_are_counted_and_their_chunks_deleted():
    plane = RecordingPlane()
    own = Opened(plane=plane).begin()
    assert own.take(1, 2, 3, 4) == 4
    assert own.manager.status()["held"] == {"b": {"rows": 16, "chunks": 4, "shards": [8, 8]}}
    own.shards.lose(0, down=True)
    assert own.take(5) == 5  # it was to go to the first shard
    status = own.manager.status()
    assert status["held"] == {"b": {"rows": 8, "chunks": 2, "shards": [None, 8]}}
    assert (status["lost_shards"], status["lost_rows"], status["rows"]) == (1, 12, 20)
    assert sorted(plane.released) == ["chunk1", "chunk3", "chunk5"]
    assert [chunk.ref["chunk"] for chunk in own.journal.load().chunks] == ["chunk2", "chunk4"]
    own.shards.lose(1, down=True)
    own.manager.snapshot()  # here nobody answers
    # Nothing is acknowledged while there is no shard.
    assert own.take(6) == 5
    assert own.manager.rows_taken == 20
    own.close()


def test_a_restarted_coordinator_fills_new_shards_from_its_journal(tmp_path):
    path = str(tmp_path / "j.sqlite")
    own = Opened(path).begin()
    own.take(1, 2, 3)
    own.shards.lose(1)
    own.take(4)
    own.manager.buffers["b"].update({"replay_unique_id": [0], "replay_buffer_idx": [0], "priority": [7.0]})
    own.manager.snapshot()
    own.close()
    after = Opened(path)
    after.manager.restore(after.journal.load())
    status = after.manager.status()
    assert (status["lost_shards"], status["lost_rows"], status["rows"]) == (1, 8, 16)
    assert status["held"]["b"]["rows"] == 8
    assert sorted(status["held"]["b"]["shards"]) == [4, 4]
    ids, priorities, _ = after.manager.buffers["b"].priorities()
    assert dict(zip(ids.tolist(), priorities.round(3).tolist()))[0] == 7.0
    assert after.manager.buffers["b"].next_unique_id == 12
    after.close()
