"""Copies of replay buffers, and buffers that went through pickle."""

import copy
import pickle
import threading

import pytest
import torch
from buffer_rows import batch, numbers, row

from ding.data import DequeBufferWrapper, TransitionBatch
from ding.data.replay.errors import BufferClosedError
from ding.worker import (
    AdvancedReplayBuffer,
    EpisodeReplayBuffer,
    MultiReplayBuffer,
    NaiveReplayBuffer,
    SequenceReplayBuffer,
)

PRIORITIES = [float(number) for number in range(1, 9)]


def pickled(buffer):
    return pickle.loads(pickle.dumps(buffer))  # noqa: S301


@pytest.fixture(params=[copy.deepcopy, pickled])
def copied(request):
    """``copied(buffer)``; the copies are closed after the test."""
    made = []

    def make_copy(buffer):
        made.append(request.param(buffer))
        return made[-1]

    yield make_copy
    for buffer in made:
        buffer.close()


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_a_copy_draws_as_the_original_and_takes_elements_of_its_own(make, copied, cls):
    buffer = make(cls, 8)
    buffer.push(batch(0, 11), 0)
    buffer.sample(4, 0)
    twin = copied(buffer)
    assert numbers(buffer.sample(6, 0)) == numbers(twin.sample(6, 0))
    twin.push(batch(50, 4), 0)
    buffer.push(batch(20, 2), 0)
    assert sorted(numbers(twin.sample(8, 0))) == [7, 8, 9, 10, 50, 51, 52, 53]
    assert sorted(numbers(buffer.sample(8, 0))) == [5, 6, 7, 8, 9, 10, 20, 21]
    assert (buffer.push_count, twin.push_count) == (13, 15)
    buffer.close()
    assert twin.count() == 8


def test_a_copy_keeps_priorities_ids_uses_and_beta(make, copied):
    buffer = make(AdvancedReplayBuffer, 8, anneal_step=10)
    buffer.push(batch(0, 8), 0)
    sampled = buffer.sample(8, 0)
    info = {key: sampled.columns[key] for key in ("replay_unique_id", "replay_buffer_idx")}
    buffer.update({**info, "priority": PRIORITIES})
    twin = copied(buffer)
    for key in ("replay_unique_id", "priority", "use", "IS"):
        assert list(buffer.sample(8, 0).columns[key]) == list(twin.sample(8, 0).columns[key])
    twin.update({**info, "priority": [99.0] * 8})
    assert buffer.priorities.largest == 8.0
    assert twin.priorities.largest == 99.0


def test_a_copy_of_frames_that_are_stored_once(make, copied):
    frames = torch.arange(7.0)[:, None].expand(7, 5000)
    buffer = make(NaiveReplayBuffer, 4)
    buffer.push(TransitionBatch({"obs": frames[:3].clone(), "next_obs": frames[1:4].clone()}), 0)
    twin = copied(buffer)
    twin.push(TransitionBatch({"obs": frames[4:6].clone(), "next_obs": frames[5:7].clone()}), 0)
    assert sorted(int(one["next_obs"].unique()) for one in twin.sample(4, 0)) == [2, 3, 5, 6]
    assert buffer.count() == 3


def test_copies_of_objects_sequences_and_episodes(make, copied):
    objects = make(NaiveReplayBuffer, 4)
    objects.push([["a"], ["b"]], 0)
    twin = copied(objects)
    twin.sample(1, 0)[0].append("of the copy")
    assert sorted(objects.sample(2, 0)) == [["a"], ["b"]]
    sequences = make(SequenceReplayBuffer, 40)
    sequences.push(batch(0, 20), 0)
    ends = {numbers(window)[-1] % 10 for window in copied(sequences).sample(30, 5, 0, replace=True)}
    assert ends == {4, 5, 6, 7, 8, 9}
    episodes = make(EpisodeReplayBuffer, 4)
    episodes.push([list(batch(0, 3)), list(batch(3, 5))], 0)
    assert copied(episodes).episode_len == [3, 5]


def test_a_copy_of_a_limited_buffer_goes_on_with_its_counts(make, copied):
    limit = {"samples_per_insert": 1, "min_size_to_sample": 2, "error_buffer": 4, "push_size": 3, "sample_size": 3}
    control = {"push_sample_rate_limit": {"max": 3.0, "min": 0}}
    buffer = make(AdvancedReplayBuffer, 8, rate_limit=limit, thruput_controller=control)
    buffer.push(batch(0, 3), 0)
    buffer.sample(1, 0)
    twin = copied(buffer)
    assert twin.rate_limiter.statistics() == buffer.rate_limiter.statistics()
    assert twin.controller.history_sample_count == pytest.approx(1, rel=0.1)
    assert twin.sample(3, 0) is not None
    assert twin.sample(3, 0) is None
    assert buffer.rate_limiter.statistics().samples == 1
    buffer.close()
    twin.rate_limiter.acquire_push(1)
    with pytest.raises(BufferClosedError):
        buffer.push(row(0), 0)


def test_a_copy_removes_used_data_when_it_was_started(make, copied, tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text("data")
    buffer = make(NaiveReplayBuffer, 2, enable_track_used_data=True)
    buffer.push([{"data_id": str(path)} for path in paths[:2]], 0)
    twin = copied(buffer)
    twin.start()
    twin.push({"data_id": str(paths[2])}, 0)
    twin.engine.stop_removing()
    assert [path.exists() for path in paths] == [False, True, True]


@pytest.mark.filterwarnings("ignore:.*tensorboard")
def test_a_copy_writes_no_curves(make, copied, tmp_path):
    buffer = NaiveReplayBuffer({"periodic_thruput_seconds": 0.01}, exp_name=str(tmp_path / "exp"))
    twin = copied(buffer)
    buffer.close()
    twin.push(batch(0, 3), 0)
    before = sorted(tmp_path.rglob("events*"))
    twin.engine._monitor.report()
    assert sorted(tmp_path.rglob("events*")) == before


def test_copies_of_the_buffers_around_others(copied, tmp_path):
    config = {"multi_buffer": True, "value": {"type": "advanced", "replay_buffer_size": 4}}
    several = MultiReplayBuffer(config, None, str(tmp_path))
    several.push(list(batch(0, 3)), 0)
    assert copied(several).count() == 3
    several.close()
    wrapped = DequeBufferWrapper({"replay_buffer_size": 4, "priority": True}, exp_name=str(tmp_path))
    wrapped.push(batch(0, 3))
    twin = copied(wrapped)
    twin.update({**{key: twin.sample(2).columns[key] for key in ("replay_unique_id",)}, "priority": [3.0, 4.0]})
    twin.push(batch(3, 3))
    assert (wrapped.count(), twin.count()) == (3, 4)
    assert len(twin.priority.buffer_idx) == 4
    wrapped.close()


def test_a_deep_copy_is_of_one_moment(make):
    buffer = make(AdvancedReplayBuffer, 64)
    stop = threading.Event()

    def push():
        number = 0
        while not stop.is_set():
            buffer.push(batch(number, 3), 0)
            number += 3

    pushing = threading.Thread(target=push)
    pushing.start()
    try:
        for _ in range(30):
            twin = copy.deepcopy(buffer)
            assert twin.push_count == twin.table.next_unique_id
            assert twin.count() == (twin.priorities.values > 0).sum()
            twin.close()
    finally:
        stop.set()
        pushing.join()
