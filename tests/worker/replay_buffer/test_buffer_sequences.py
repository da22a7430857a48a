import logging

import numpy as np
import pytest
import torch
from buffer_rows import batch, numbers, row

from ding.data import SchemaError, TransitionBatch
from ding.data.replay.errors import BufferArgumentError, BufferConfigError
from ding.data.safe_file import read_tree, write_tree
from ding.worker import EpisodeReplayBuffer, NaiveReplayBuffer, SequenceReplayBuffer

# rows of `batch` have done=True at 9, 19, 29, ...


@pytest.mark.parametrize("form", ["batch", "list"])
@pytest.mark.parametrize("pushed", [35, 60, 77])
def test_windows_are_consecutive_and_never_cross_an_end(make, form, pushed):
    buffer = make(SequenceReplayBuffer, 50)
    for first in range(0, pushed, 7):
        part = batch(first, min(7, pushed - first))
        buffer.push(part if form == "batch" else list(part), 0)
    oldest = max(0, pushed - 50)
    expected = {n for n in range(oldest, pushed - 3) if n // 10 == (n + 3) // 10}
    found = set()
    for _ in range(60):
        windows = buffer.sample(5, 4, 0)
        assert len(windows) == 5
        for window in windows:
            inside = numbers(window)
            assert inside == list(range(inside[0], inside[0] + 4))
            found.add(inside[0])
    assert found == expected


def test_all_windows_are_equally_likely(make):
    buffer = make(SequenceReplayBuffer, 30)
    buffer.push(batch(0, 30), 0)
    counts = np.zeros(30)
    for _ in range(3000):
        for window in buffer.sample(4, 3, 0, replace=True):
            counts[numbers(window)[0]] += 1
    allowed = [n for n in range(30) if n % 10 < 8]
    assert counts.sum() == counts[allowed].sum()
    expected = 3000 * 4 / 24
    # 23 degrees of freedom: 99.9 % of the time below 49.7
    assert ((counts[allowed] - expected) ** 2 / expected).sum() < 49.7


def test_pieces_of_several_environments_are_not_joined(make):
    buffer = make(SequenceReplayBuffer, 100, end_field=None)
    buffer.push(batch(0, 20, lengths=[8, 12]), 0)
    buffer.push(batch(20, 5, lengths=[5]), 0)
    buffer.push(batch(25, 3), 0)
    buffer.push(batch(28, 3), 0)
    starts = {numbers(window)[0] for _ in range(80) for window in buffer.sample(2, 5, 0)}
    assert starts == {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 25, 26}


def test_fixed_episode_length(make):
    buffer = make(SequenceReplayBuffer, 100, end_field=None, episode_len=6)
    for first in range(0, 20, 4):
        buffer.push(batch(first, 4), 0)
    starts = {numbers(window)[0] for _ in range(80) for window in buffer.sample(2, 5, 0)}
    assert starts == {0, 1, 6, 7, 12, 13}


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ((2, 11), "the longest of 10, hold 0 windows of 11"),
        ((4, 10), "need 40 elements"),
        ((4, 6, 0, slice(0, 6)), "windows"),
    ],
)
def test_when_there_are_no_windows_it_says_why(make, caplog, args, reason):
    buffer = make(SequenceReplayBuffer, 30)
    buffer.push(batch(0, 30), 0)
    with caplog.at_level(logging.INFO, "ding"):
        assert buffer.sample(*args[:2], 0, *args[3:]) is None
    assert reason in caplog.text
    assert make(SequenceReplayBuffer, 30).sample(1, 1, 0) is None
    assert buffer.sample(0, 5, 0) == []


def test_sample_range_of_windows(make):
    buffer = make(SequenceReplayBuffer, 30)
    buffer.push(batch(0, 45), 0)
    starts = {numbers(window)[0] for _ in range(60) for window in buffer.sample(1, 4, 0, sample_range=slice(-12, -1))}
    assert starts == {33, 34, 35, 36, 40}
    with pytest.raises(BufferArgumentError, match="has a step"):
        buffer.sample(1, 4, 0, sample_range=slice(None, None, 2))


@pytest.mark.parametrize("args", [(-1, 3), (2, 0), (2, -3), (1.5, 3), (2, "3")])
def test_bad_sizes(make, args):
    buffer = make(SequenceReplayBuffer, 30)
    with pytest.raises(BufferArgumentError):
        buffer.sample(*args, 0)


def test_padded_windows(make):
    buffer = make(SequenceReplayBuffer, 20, padding=True)
    buffer.push(batch(0, 20), 0)
    seen = set()
    for _ in range(40):
        columns = buffer.sample(4, 5, 0).columns
        assert columns["obs"].shape == (4, 5, 3)
        for i in range(4):
            first, length = int(columns["reward"][i, 0, 0]), int(columns["length"][i])
            seen.add((first, length))
            assert columns["mask"][i].tolist() == [1.0] * length + [0.0] * (5 - length)
            assert columns["reward"][i, :, 0].tolist() == [float(first + k) for k in range(length)] + [0.0] * (
                5 - length
            )
            assert not columns["done"][i, length:].any()
    assert seen == {(n, min(5, 10 - n % 10)) for n in range(20)}


def test_bad_config_and_bad_end_field(make):
    with pytest.raises(BufferConfigError, match="episode_len"):
        SequenceReplayBuffer({"replay_buffer_size": 4, "episode_len": 0})
    buffer = make(SequenceReplayBuffer, 4, storage={"mixed_rows": False})
    buffer.push(row(0), 0)
    with pytest.raises(SchemaError, match="missing fields"):
        buffer.push({key: value for key, value in row(1).items() if key != "done"}, 0)
    assert buffer.count() == 1


def test_state_keeps_the_ends(make):
    buffer, other = make(SequenceReplayBuffer, 30), make(SequenceReplayBuffer, 30)
    buffer.push(batch(0, 20, lengths=[5, 15]), 0)
    other.load_state_dict(buffer.state_dict())
    for _ in range(5):
        assert [numbers(w) for w in buffer.sample(3, 4, 0)] == [numbers(w) for w in other.sample(3, 4, 0)]
    buffer.clear()
    assert buffer.sample(1, 1, 0) is None
    buffer.push(batch(0, 9), 0)
    assert numbers(buffer.sample(1, 9, 0)[0]) == list(range(9))


def test_windows_of_objects(make):
    buffer = make(SequenceReplayBuffer, 30, storage={"mixed_rows": True})
    for number in range(20):
        buffer.push({"reward": [number], "done": number % 10 == 9, **({"x": 1} if number % 2 else {})}, 0)
    for window in buffer.sample(3, 5, 0):
        assert numbers(window) == list(range(numbers(window)[0], numbers(window)[0] + 5))


def starts_of(buffer, sequence):
    """All numbers that windows begin with."""
    windows = buffer.sample(2000, sequence, 0, replace=True)
    return {numbers(window)[0] for window in windows}


def test_ends_go_with_their_rows_when_the_ring_wraps(make):
    buffer = make(SequenceReplayBuffer, 20, end_field=None)
    generator = np.random.default_rng(0)
    first, ends = 0, set()
    for _ in range(60):
        lengths = generator.integers(1, 9, size=int(generator.integers(1, 4)))
        buffer.push(batch(first, int(lengths.sum()), lengths=lengths), 0)
        ends |= {int(end) for end in first + np.cumsum(lengths) - 1}
        first += int(lengths.sum())
        held = range(max(0, first - 20), first)
        legal = {n for n in held if n + 2 in held and not {n, n + 1} & ends}
        if legal:
            assert starts_of(buffer, 3) == legal
        else:
            assert buffer.sample(1, 3, 0) is None
    assert len(buffer.ends.within(0, first)) <= 20, "ends of rows that are gone are kept"


def test_a_push_of_more_rows_than_there_are_slots_keeps_the_last_ends(make):
    buffer = make(SequenceReplayBuffer, 10, end_field=None)
    buffer.push(batch(0, 23, lengths=[9, 8, 6]), 0)
    assert starts_of(buffer, 4) == {13, 17, 18, 19}


@pytest.mark.parametrize("size", [30, 13])
@pytest.mark.parametrize("elide", [True, False])
def test_a_file_keeps_the_ends_of_pieces(make, monkeypatch, elide, size):
    monkeypatch.setattr("ding.data.storage._saved_rows.CHUNK_BYTES", 100)
    storage = {"elide_next_obs": elide}
    buffer = make(SequenceReplayBuffer, 20, end_field=None, storage=storage)
    buffer.push(batch(0, 25, lengths=[8, 7, 10]), 0)
    buffer.save_data("data")
    other = make(SequenceReplayBuffer, size, end_field=None, storage=storage)
    other.push(batch(40, 4, lengths=[4]), 0)
    other.load_data("data")
    other.push(batch(25, 5), 0)
    kept = range(max(5, 30 - size), 30)
    expected = {n for n in kept if n + 3 in kept and not {n, n + 1, n + 2} & {7, 14, 24}}
    assert starts_of(other, 4) - {40} == expected


def test_pieces_of_elided_rows_that_do_not_add_up_change_nothing(make):
    buffer = make(SequenceReplayBuffer, 20, storage={"elide_next_obs": True})
    buffer.push(batch(0, 12, lengths=[8, 4]), 0)
    buffer.save_data("data")
    for lengths in ([8, 5], [12, 0], [], [-1, 13]):
        tree = read_tree("data", "replay buffer")
        tree["lengths"] = np.array(lengths, dtype=np.int64)
        write_tree("bad", tree, "replay buffer")
        with pytest.raises(SchemaError, match="lengths of their segments"):
            buffer.load_data("bad")
    assert (buffer.count(), starts_of(buffer, 4)) == (12, {0, 1, 2, 3, 4})


def test_fixed_length_begins_anew_behind_pieces(make):
    buffer = make(SequenceReplayBuffer, 100, end_field=None, episode_len=6)
    buffer.push(batch(0, 4), 0)
    buffer.push(batch(4, 9, lengths=[2, 7]), 0)
    buffer.push(batch(13, 4), 0)
    buffer.push(batch(17, 4), 0)
    assert starts_of(buffer, 4) == {0, 1, 2, 6, 7, 8, 9, 13, 14, 15}
    other = make(SequenceReplayBuffer, 100, end_field=None, episode_len=6)
    other.load_state_dict(buffer.state_dict())
    for one in (buffer, other):
        one.push(batch(21, 5), 0)
        assert starts_of(one, 4) == {0, 1, 2, 6, 7, 8, 9, 13, 14, 15, 19, 20, 21}


def test_a_state_without_ends_is_refused(make):
    plain, buffer = make(NaiveReplayBuffer, 30), make(SequenceReplayBuffer, 30)
    plain.push(batch(0, 20), 0)
    buffer.push(batch(0, 20, lengths=[5, 15]), 0)
    with pytest.raises(BufferArgumentError, match=r"lacks \['ends', 'phase'\]"):
        buffer.load_state_dict(plain.state_dict())
    assert starts_of(buffer, 5) == {0, 5, 10, 11, 12, 13, 14, 15}
    buffer.clear()
    buffer.load_state_dict({"data": list(batch(20, 7))})
    assert starts_of(buffer, 7) == {20}


@pytest.mark.parametrize("ends", [[3, 3], [5, 2], [-1, 4], [20], "no", None])
def test_a_state_with_damaged_ends_changes_nothing(make, ends):
    buffer = make(SequenceReplayBuffer, 30)
    buffer.push(batch(0, 20, lengths=[5, 15]), 0)
    with pytest.raises(BufferArgumentError, match="is damaged"):
        buffer.load_state_dict({**buffer.state_dict(), "ends": ends, "tail": 3})
    assert starts_of(buffer, 5) == {0, 5, 10, 11, 12, 13, 14, 15}


def test_ends_of_rows_of_any_form(make):
    buffer = make(SequenceReplayBuffer, 30, storage={"mixed_rows": True})
    buffer.push([{"reward": [n], "done": torch.tensor([n == 3])} for n in range(5)], 0)
    buffer.push([{"reward": [5], "done": torch.tensor([0.0, 1.0])}, {"reward": [6]}, {"reward": [7], "done": False}], 0)
    assert starts_of(buffer, 2) == {0, 1, 2, 4, 6}


def test_windows_are_deep_copies_if_that_is_asked_for(make):
    buffer = make(SequenceReplayBuffer, 30, deepcopy=True, storage={"mixed_rows": True})
    buffer.push([{"reward": [n], "done": False, **({"x": 1} if n % 2 else {})} for n in range(4)], 0)
    buffer.sample(1, 4, 0)[0][0]["reward"][0] = 9
    assert numbers(buffer.sample(1, 4, 0)[0]) == [0, 1, 2, 3]


def test_all_rows_of_the_windows_count_as_sampled(make):
    limit = {"samples_per_insert": 1.0, "min_size_to_sample": 9, "error_buffer": 12.0, "push_size": 9, "sample_size": 8}
    buffer = make(SequenceReplayBuffer, 30, rate_limit=limit)
    buffer.push(batch(0, 9), 0)
    assert len(buffer.sample(2, 4, 0)) == 2
    assert buffer.rate_limiter.statistics().samples == 8
    assert buffer.counters.sampled == 8


# ------------------------------------------------------------------ episodes


def test_episodes_of_different_lengths(make):
    buffer = make(EpisodeReplayBuffer, 4)
    assert buffer.episode_len == []
    buffer.push([batch(0, 3), list(batch(3, 5))], 0)
    assert (buffer.count(), buffer.episode_len) == (2, [3, 5])
    buffer.push(batch(8, 6, lengths=[2, 4]), 0)
    buffer.push(list(batch(14, 1)), 0)
    assert (buffer.count(), buffer.push_count, buffer.episode_len) == (4, 5, [5, 2, 4, 1])
    found = sorted(numbers(episode) for episode in buffer.sample(4, 0))
    assert found == [[3, 4, 5, 6, 7], [8, 9], [10, 11, 12, 13], [14]]
    assert buffer.sample(5, 0) is None
    assert sorted(numbers(e) for e in buffer.sample(2, 0, sample_range=slice(-2, None))) == [[10, 11, 12, 13], [14]]


def test_episodes_are_copied_in_and_out(make):
    buffer = make(EpisodeReplayBuffer, 4)
    source = batch(5, 3)
    buffer.push([source], 0)
    source.columns["reward"].zero_()
    (first,) = buffer.sample(1, 0)
    assert numbers(first) == [5, 6, 7]
    first.columns["reward"].zero_()
    first[0]["obs"] = None
    assert numbers(buffer.sample(1, 0)[0]) == [5, 6, 7]


def test_a_list_that_the_caller_goes_on_to_use_is_an_episode_of_its_own(make):
    buffer = make(EpisodeReplayBuffer, 4)
    episode = list(batch(0, 3))
    buffer.push([episode], 0)
    episode.append(row(9))
    assert buffer.episode_len == [3]


def test_padded_episodes(make):
    buffer = make(EpisodeReplayBuffer, 4, padding=True)
    buffer.push([batch(0, 3), list(batch(3, 5)), batch(8, 1)], 0)
    columns = buffer.sample(3, 0).columns
    assert columns["obs"].shape == (3, 5, 3)
    order = np.argsort(columns["reward"][:, 0, 0].numpy())
    assert columns["length"][order].tolist() == [3, 5, 1]
    assert columns["mask"][torch.from_numpy(order)].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]
    assert columns["reward"][int(order[0]), :, 0].tolist() == [0, 1, 2, 0, 0]
    assert isinstance(buffer.sample(2, 0), TransitionBatch)


def test_save_load_and_state_of_episodes(make, tmp_path):
    buffer, other, third = (make(EpisodeReplayBuffer, 4) for _ in range(3))
    buffer.push([batch(0, 3), list(batch(3, 5))], 0)
    buffer.save_data(str(tmp_path / "data"))
    other.load_data(str(tmp_path / "data"))
    assert other.episode_len == [3, 5]
    third.load_state_dict(buffer.state_dict())
    assert sorted(numbers(e) for e in third.sample(2, 0)) == [[0, 1, 2], [3, 4, 5, 6, 7]]


def of_environments(first, count, number=3):
    """Row n belongs to environment ``n % number`` but for every fifth, which is one of environment 0."""
    rows = batch(first, count)
    env = np.arange(first, first + count)
    return rows.with_columns(env=np.where(env % 5 == 0, 0, env % number))


@pytest.mark.parametrize("end_field", [None, "done"])
def test_windows_follow_one_environment(make, tmp_path, end_field):
    cfg = {"stream_field": "env", "end_field": end_field}
    buffer, restored, filled = (make(SequenceReplayBuffer, 40, **cfg) for _ in range(3))
    for first in range(0, 63, 7):
        part = of_environments(first, 7)
        # Segments of the collector may be of single steps.
        buffer.push(TransitionBatch.unchecked(part.columns, 7, np.ones(7, dtype=np.int64)), 0)
    of = np.where(np.arange(63) % 5 == 0, 0, np.arange(63) % 3)
    expected = set()
    for env in range(3):
        held = np.flatnonzero(of == env)
        held = held[held >= 63 - 40]
        windows = [tuple(held[at : at + 4].tolist()) for at in range(len(held) - 3)]
        expected |= {window for window in windows if end_field is None or not any(n % 10 == 9 for n in window[:-1])}
    write_tree(str(tmp_path / "state"), buffer.state_dict(), "test")
    restored.load_state_dict(read_tree(str(tmp_path / "state"), "test"))
    buffer.save_data(str(tmp_path / "data"))
    filled.load_data(str(tmp_path / "data"))
    for one in (buffer, restored, filled):
        assert {tuple(numbers(window)) for _ in range(100) for window in one.sample(5, 4, 0)} == expected
    inside = {tuple(numbers(window)) for _ in range(60) for window in buffer.sample(2, 4, 0, slice(0, 20))}
    assert inside == {window for window in expected if window[-1] < 63 - 20}
    buffer.clear()
    assert buffer.sample(1, 1, 0) is None
    with pytest.raises(SchemaError, match=r"'env' \(stream_field\) must be an int in each row"):
        buffer.push([{**row(0), "env": "first"}], 0)
    with pytest.raises(BufferArgumentError, match="not each row has a stream"):
        buffer.load_state_dict({**restored.state_dict(), "streams": np.zeros(3, dtype=np.int64)})
