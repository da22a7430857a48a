"""Several buffers that are filled together."""

import pytest

from ding.worker import MultiReplayBuffer

CONFIG = {
    "multi_buffer": True,
    "policy": {"type": "advanced", "replay_buffer_size": 4},
    "value": {"type": "naive", "replay_buffer_size": 8},
}


@pytest.fixture
def buffer(tmp_path):
    made = MultiReplayBuffer(CONFIG, None, str(tmp_path))
    yield made
    made.close()


def rows(count: int) -> list[dict]:
    return [{"number": i} for i in range(count)]


def test_each_buffer_gets_every_sample_and_keeps_what_it_has_room_for(buffer) -> None:
    buffer.push(rows(6), 0)
    assert (buffer.count(), buffer.replay_buffer_size) == (10, 12)
    batches = buffer.sample({"policy": 4, "value": 6}, 0)
    assert sorted(row["number"] for row in batches["policy"]) == [2, 3, 4, 5]
    assert sorted(row["number"] for row in batches["value"]) == [0, 1, 2, 3, 4, 5]


def test_there_is_a_batch_from_each_buffer_or_none(buffer) -> None:
    buffer.push(rows(6), 0)
    assert buffer.sample({"policy": 5, "value": 5}, 0) is None
    buffer.clear()
    assert buffer.count() == 0


def test_its_state_and_its_files(buffer, tmp_path) -> None:
    buffer.push(rows(6), 0)
    buffer.save_data(str(tmp_path / "data"))
    state = buffer.state_dict()
    fills = (
        lambda other: other.load_state_dict(state),
        lambda other: other.load_state_dict(state_dict=state),
        lambda other: other.load_data(str(tmp_path / "data")),
    )
    for fill in fills:
        other = MultiReplayBuffer(CONFIG, None, str(tmp_path))
        fill(other)
        assert {name: one.count() for name, one in other.buffers.items()} == {"policy": 4, "value": 6}
        other.close()


def test_priorities_go_to_the_buffer_that_they_are_for(buffer) -> None:
    buffer.push(rows(4), 0)
    batch = buffer.sample({"policy": 2, "value": 2}, 0)["policy"]
    keys = ("replay_unique_id", "replay_buffer_idx")
    buffer.update({"policy": {**{key: [row[key] for row in batch] for key in keys}, "priority": [5.0, 5.0]}})
    drawn = buffer.sample({"policy": 4, "value": 2}, 0)["policy"]
    assert sorted(row["priority"] for row in drawn)[-2:] == pytest.approx([5.0, 5.0], rel=1e-4)
