"""What the store of a collector hands over goes into the buffers."""

import numpy as np
import pytest
from easydict import EasyDict

from ding.rollout import TrajectoryStore
from ding.worker import create_buffer

IDS = np.arange(2)


def collected(first, steps, **more):
    """The steps ``first, first + 1, ...`` of two environments, as a trajectory of each."""
    store = TrajectoryStore(2, rows_as_tensors=True)
    for t in range(first, first + steps):
        store.append(IDS, {
            "obs": np.stack([IDS * 100.0 + t, IDS], axis=1), "env": IDS, "t": np.full(2, t), "done": IDS > 0, **more
        })  # fmt: skip
    store.finish(IDS)
    return store.take_finished()


def names(first, steps):
    return [(i, t) for i in range(2) for t in range(first, first + steps)]


def assert_holds(buffer, expected):
    held = buffer.state_dict()["data"]
    assert list(zip(held["env"].tolist(), held["t"].tolist())) == expected
    assert held["obs"].tolist() == [[100.0 * i + t, i] for i, t in expected]


def make(kind, size=10, **cfg):
    return create_buffer(EasyDict(type=kind, replay_buffer_size=size, **cfg))


@pytest.mark.parametrize("kind", ["naive", "advanced", "sequence"])
def test_pushes_of_collected_rows(kind):
    buffer = make(kind)
    expected = []
    for first in range(0, 12, 3):
        batch = collected(first, 3)
        buffer.push(batch, cur_collector_envstep=0)
        expected += names(first, 3)
    assert_holds(buffer, expected[-10:])
    assert buffer.push_count == 24
    buffer.close()


@pytest.mark.parametrize("kind", ["naive", "advanced"])
def test_more_rows_than_slots(kind):
    buffer = make(kind, size=5)
    for first in (0, 10, 20):
        buffer.push(collected(first, 4), cur_collector_envstep=0)
        assert_holds(buffer, names(first, 4)[-5:])
    buffer.close()


@pytest.mark.parametrize("kind", ["naive", "advanced"])
def test_part_of_what_was_collected(kind):
    buffer = make(kind)
    buffer.push(collected(0, 1), cur_collector_envstep=0)
    batch = collected(1, 3)[:4]
    buffer.push(batch, cur_collector_envstep=0)
    assert_holds(buffer, names(0, 1) + names(1, 3)[:4])
    buffer.close()


@pytest.mark.parametrize("kind", ["naive", "advanced"])
def test_rows_of_another_form(kind):
    buffer = make(kind, storage=EasyDict(mixed_rows=True))
    buffer.push(collected(0, 1), cur_collector_envstep=0)
    buffer.push(collected(1, 1, more=IDS), cur_collector_envstep=0)
    held = [(row["env"], row["t"], row.get("more")) for row in buffer.state_dict()["data"]]
    assert held == [(0, 0, None), (1, 0, None), (0, 1, 0), (1, 1, 1)]
    buffer.close()


@pytest.mark.parametrize("kind", ["naive", "advanced"])
def test_used_data_is_tracked(kind, tmp_path):
    buffer = make(kind, size=4, enable_track_used_data=True)
    buffer.push(collected(0, 1, data_id=np.array([str(tmp_path / name) for name in "ab"])), cur_collector_envstep=0)
    with pytest.raises(AssertionError, match="data_id"):
        buffer.push(collected(1, 1), cur_collector_envstep=0)
    assert buffer.count() == 2
    buffer.close()


def test_collect_iter_and_priority_of_collected_rows():
    buffer = make("advanced", size=8)
    buffer.push(collected(0, 1, collect_iter=np.array([3, 4])), cur_collector_envstep=0)
    buffer.push(collected(1, 1, collect_iter=np.array([5, 9])), cur_collector_envstep=0)
    buffer.push(collected(2, 1, collect_iter=np.array([7, 7]), priority=np.array([0.5, 0.25])), cur_collector_envstep=0)
    slots = buffer.state_dict()["slots"]
    assert slots["collect_iter"][:6].tolist() == [3, 4, 5, 9, 7, 7]
    assert slots["priority"][:6].tolist() == [1, 1, 1, 1, 0.5, 0.25]
    sampled = buffer.sample(6, 10).columns
    assert sampled["staleness"].tolist() == [10 - iteration for iteration in sampled["collect_iter"].tolist()]
    buffer.close()


def test_windows_of_collected_rows_end_with_their_pieces():
    buffer = make("sequence", size=20)
    for first in (0, 4):
        buffer.push(collected(first, 4), cur_collector_envstep=0)
    found = set()
    for _ in range(60):
        for window in buffer.sample(4, 3, 0):
            found.add(tuple(zip(window.columns["env"].tolist(), window.columns["t"].tolist())))
    # Every step of environment 1 is the end of an episode.
    assert found == {tuple((0, t + k) for k in range(3)) for t in (0, 1, 4, 5)}
    buffer.close()


def test_deque_buffers_take_collected_rows():
    buffer = make("deque", size=10)
    expected = []
    for first in range(0, 12, 3):
        batch = collected(first, 3)
        buffer.push(batch)
        expected += names(first, 3)
    columns = buffer.sample(10, 0).columns
    assert sorted(zip(columns["env"].tolist(), columns["t"].tolist())) == sorted(expected[-10:])
    buffer.close()
