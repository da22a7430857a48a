"""Files of buffers are written and read a part at a time."""

import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import torch

from ding.data import SchemaError, TransitionBatch, safe_file
from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.worker import AdvancedReplayBuffer, EpisodeReplayBuffer, NaiveReplayBuffer, SequenceReplayBuffer

KIND = "replay buffer"
SIZE = 37
STORAGES = {
    "columns": {},
    "elided": {"elide_next_obs": True},
    "mapped": {"path": "maps"},
    "mapped elided": {"path": "maps", "elide_next_obs": True},
    "mapped stacks": {"path": "maps", "frame_stack": 2},
    "device": {"device": "cpu"},
}


def batch(first, count, lengths=None):
    """Rows of all kinds of fields. With an odd number of them, what follows ``done`` lies unaligned in a file."""
    number = torch.arange(first, first + count)
    obs = number[:, None, None] + torch.tensor([0, 1])[:, None] + torch.zeros(3)
    return TransitionBatch(
        {
            "done": (number % 5 == 4).numpy(),
            "obs": {"image": obs, "half": obs[:, 0].to(torch.bfloat16)},
            "next_obs": {"image": obs + 1, "half": obs[:, 0].to(torch.bfloat16) + 1},
            "large": torch.ones(200, dtype=torch.float64) * number[:, None],
            "n": number.numpy(),
        },
        lengths,
    )


def check_same(found, expected):
    assert list(found) == list(expected)
    for key, value in expected.items():
        if isinstance(value, dict):
            check_same(found[key], value)
        elif isinstance(value, list):
            assert found[key] == value
        else:
            left, right = torch.as_tensor(found[key]), torch.as_tensor(value)
            assert left.dtype == right.dtype
            assert torch.equal(left, right), key


def held(buffer):
    return buffer.engine.rows.read(buffer.engine.ring.held())


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(safe_file, "_PART_BYTES", 100)
    monkeypatch.setattr("ding.data.storage._saved_rows.CHUNK_BYTES", 10_000)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer, SequenceReplayBuffer])
@pytest.mark.parametrize("saved", STORAGES)
@pytest.mark.parametrize("loaded", STORAGES)
def test_wrapped_rings_come_back_exactly_in_every_storage(make, cls, saved, loaded):
    buffer, other = make(cls, SIZE, storage=STORAGES[saved]), make(cls, SIZE, storage=STORAGES[loaded])
    for first in range(0, 60, 10):
        buffer.push(batch(first, 10), 0)
    other.push(batch(90, 5), 0)
    buffer.save_data("data")
    other.load_data("data")
    assert (other.count(), other.push_count) == (SIZE, 5 + SIZE)
    check_same(held(other).columns, batch(23, SIZE).columns)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("count", [0, 1, SIZE])
def test_a_larger_or_smaller_buffer_keeps_the_newest_rows(make, count):
    buffer, other = make(NaiveReplayBuffer, SIZE), make(NaiveReplayBuffer, 7)
    buffer.push(batch(0, count), 0)
    buffer.save_data("data")
    other.push(batch(100, 3), 0)
    other.load_data("data")
    numbers = [100, 101, 102, *range(count)]
    assert held(other).columns["n"].tolist() == numbers[-7:]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("storage", [{}, {"path": "maps"}])
def test_the_file_is_that_of_the_same_rows_in_memory(make, storage):
    buffer = make(NaiveReplayBuffer, SIZE, storage=storage)
    buffer.push(batch(0, 50).with_columns(names=[str(number) for number in range(50)]), 0)
    buffer.save_data("data")
    write_tree("whole", held(buffer), KIND)
    with open("data", "rb") as left, open("whole", "rb") as right:
        assert left.read() == right.read()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("storage", [{}, {"elide_next_obs": True}])
def test_a_damaged_byte_anywhere_leaves_the_buffer_as_it_was(make, storage):
    rows = {"done": np.zeros(3, np.bool_), "obs": torch.arange(3.0)[:, None], "next_obs": torch.arange(1.0, 4)[:, None]}
    source = make(NaiveReplayBuffer, 5, storage=storage)
    source.push(TransitionBatch(rows), 0)
    source.save_data("data")
    with open("data", "rb") as file:
        raw = file.read()
    # Nothing reads this note to other programs.
    note = raw.find(b'"layout": "elided"')
    buffer = make(NaiveReplayBuffer, 5, storage=storage)
    for at in range(len(raw)):
        if 0 <= note <= at < note + 18:
            continue
        with open("bad", "wb") as file:
            file.write(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        buffer.clear()
        buffer.push(TransitionBatch({**rows, "obs": rows["obs"] + 10}), 0)
        before, push_count = held(buffer).columns, buffer.push_count
        with pytest.raises(SafeFileError):
            buffer.load_data("bad")
        assert buffer.push_count == push_count
        check_same(held(buffer).columns, before)


KILLED = """
import os, signal, sys
import torch
from ding.data import TransitionBatch, safe_file
from ding.worker import NaiveReplayBuffer

buffer = NaiveReplayBuffer({"replay_buffer_size": 10, "storage_path": "maps"})
buffer.push(TransitionBatch({"n": torch.arange(13), "m": torch.arange(13)}), 0)
buffer.save_data("data")
buffer.push(TransitionBatch({"n": torch.arange(13, 20), "m": torch.arange(13, 20)}), 0)
parts, left = safe_file._parts, int(sys.argv[1])

def killing(array):
    global left
    for part in parts(array):
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        yield part

safe_file._PART_BYTES = 16
safe_file._parts = killing
buffer.save_data("data")
"""


@pytest.mark.parametrize("parts", [0, 3, 7])
def test_who_is_killed_while_saving_leaves_the_file_from_before(make, parts):
    child = subprocess.run([sys.executable, "-c", KILLED, str(parts)], check=False, timeout=120)
    assert child.returncode == -signal.SIGKILL
    buffer = make(NaiveReplayBuffer, 10)
    buffer.load_data("data")
    check_same(held(buffer).columns, {"n": torch.arange(3, 13), "m": torch.arange(3, 13)})


@pytest.mark.parametrize("elide", [True, False])
@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer, SequenceReplayBuffer])
def test_files_larger_than_a_part_need_memory_for_some_parts_only(make, monkeypatch, cls, elide):
    monkeypatch.setattr("ding.data.storage._saved_rows.CHUNK_BYTES", 1 << 20)
    storage = {"path": "maps", "elide_next_obs": elide}
    control = (
        {} if cls is not AdvancedReplayBuffer else {"thruput_controller": {"push_sample_rate_limit": {"max": 1e9}}}
    )
    # An odd number of flags, so that the observations do not lie aligned in the file.
    buffer, other = (make(cls, 1001, storage=storage, **control) for _ in range(2))
    for first in range(0, 1500, 100):
        # Arrays, for tracemalloc knows nothing of the memory of tensors.
        obs = np.random.default_rng(first).integers(0, 255, (101, 128, 64), dtype=np.uint16)
        flags = np.zeros(100, np.bool_)
        buffer.push(TransitionBatch({"done": flags, "obs": obs[:-1], "next_obs": obs[1:]}), 0)
    expected = held(buffer).columns
    peaks = []
    for call in (lambda: buffer.save_data("data"), lambda: other.load_data("data")):
        tracemalloc.start()
        call()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert os.path.getsize("data") > (15 << 20)
    assert peaks[0] < (3 << 20)
    assert peaks[1] < (8 << 20)
    check_same(held(other).columns, expected)


@pytest.mark.usefixtures("small_parts")
def test_what_is_loaded_does_not_refer_to_the_file(make):
    objects = [np.arange(3.0), "text", {"deep": torch.ones(2)}] * 10
    source, mixed, lists = (make(NaiveReplayBuffer, 60, storage={"mixed_rows": True}) for _ in range(3))
    source.push(batch(0, 30).with_columns(objects=objects), 0)
    source.save_data("rows")
    mixed.push({"of another form": 1}, 0)
    lists.push([{"x": np.arange(4.0)}, {"y": torch.ones(3)}], 0)
    lists.save_data("objects")
    lists.clear()
    columns = make(NaiveReplayBuffer, 60)
    columns.load_data("rows")
    mixed.load_data("rows")
    lists.load_data("objects")
    for name in ("rows", "objects"):
        with open(name, "r+b") as file:
            file.write(bytes(os.path.getsize(name)))
    rows = held(mixed)[1:]
    assert [row["n"] for row in rows] == list(range(30))
    assert torch.equal(rows[7]["large"], batch(7, 1).columns["large"][0])
    for row in (rows[3], held(columns)[3]):
        np.testing.assert_array_equal(row["objects"], np.arange(3.0))
    assert torch.equal(rows[5]["objects"]["deep"], torch.ones(2))
    np.testing.assert_array_equal(held(lists)[0]["x"], np.arange(4.0))
    assert torch.equal(held(lists)[1]["y"], torch.ones(3))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
@pytest.mark.parametrize("elide", [True, False])
@pytest.mark.parametrize("target", [{}, {"device": "cpu"}])
def test_a_number_without_a_form_far_into_the_file_keeps_all_of_it_out(make, cls, elide, target):
    source = make(NaiveReplayBuffer, SIZE, storage={"elide_next_obs": elide})
    reward = np.zeros(SIZE, np.int64)
    reward[-1] = 2**53 + 1
    source.push(batch(0, SIZE).with_columns(reward=reward), 0)
    source.save_data("data")
    buffer = make(cls, SIZE, storage={**target, "mixed_rows": False})
    buffer.push(batch(50, 3).with_columns(reward=np.zeros(3)), 0)
    with pytest.raises(SchemaError, match="beyond what"):
        buffer.load_data("data")
    assert (buffer.count(), buffer.push_count) == (3, 3)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("elide", [True, False])
@pytest.mark.parametrize("cls", [NaiveReplayBuffer, SequenceReplayBuffer])
def test_a_file_of_rows_is_one_episode_or_those_of_its_lengths(make, cls, elide):
    source, buffer = make(cls, SIZE, storage={"elide_next_obs": elide}), make(EpisodeReplayBuffer, SIZE)
    source.push(batch(0, 30), 0)
    source.save_data("data")
    buffer.load_data("data")
    assert buffer.episode_len == ([30] if cls is NaiveReplayBuffer else [5] * 6)
    assert [number for episode in held(buffer) for number in episode.columns["n"].tolist()] == list(range(30))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("elide", [True, False])
def test_both_the_ends_in_the_file_and_those_of_the_field_end_episodes(make, elide):
    source = make(SequenceReplayBuffer, SIZE, end_field=None, storage={"elide_next_obs": elide})
    source.push(batch(0, 30, lengths=[13, 17]), 0)
    source.save_data("data")
    buffer = make(SequenceReplayBuffer, SIZE, episode_len=2)
    buffer.load_data("data")
    assert buffer.state_dict()["ends"].tolist() == [4, 9, 12, 14, 19, 24, 29]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("elide", [True, False])
@pytest.mark.parametrize(("limit", "loaded"), [(3.5, 0), (4.5, 30)])
def test_the_throughput_controller_is_asked_once_about_the_whole_file(make, elide, limit, loaded):
    source = make(NaiveReplayBuffer, SIZE, storage={"elide_next_obs": elide})
    source.push(batch(0, 30), 0)
    source.save_data("data")
    # 10 rows and 10 samples: 30 more rows are 4 per sample.
    control = {"push_sample_rate_limit": {"max": limit, "min": 0}, "window_seconds": 1e9}
    buffer = make(AdvancedReplayBuffer, 50, thruput_controller=control)
    buffer.push(batch(50, 10), 0)
    assert len(buffer.sample(10, 0)) == 10
    asked, can_push = [], buffer.controller.can_push
    buffer.controller.can_push = lambda count: asked.append(count) or can_push(count)
    buffer.load_data("data")
    assert asked == [30]
    assert buffer.count() == 10 + loaded


def test_a_field_that_has_no_safe_form_is_named_and_leaves_the_old_file(make):
    buffer = make(NaiveReplayBuffer, 4)
    buffer.push(TransitionBatch({"n": np.arange(3)}), 0)
    buffer.save_data("data")
    for column in (np.zeros(3, "M8[s]"), np.zeros(3, np.complex128)):
        buffer.clear()
        buffer.push(TransitionBatch({"time": column}), 0)
        with pytest.raises(SafeFileError, match=r"data\['time'\]|complex128"):
            buffer.save_data("data")
    assert read_tree("data", KIND).columns["n"].tolist() == [0, 1, 2]
    assert sorted(name for name in os.listdir() if "data" in name) == ["data"]


@pytest.mark.parametrize("storage", [{}, {"elide_next_obs": True}])
def test_rows_are_written_in_the_critical_section(make, monkeypatch, storage):
    buffer, parts, free = make(NaiveReplayBuffer, SIZE, storage=storage), safe_file._parts, []
    buffer.push(batch(0, 30), 0)

    def probed(array):
        thread = threading.Thread(target=lambda: free.append(buffer.engine.lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        return parts(array)

    monkeypatch.setattr(safe_file, "_parts", probed)
    buffer.save_data("data")
    with open("data", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    assert free == [False] * (len(header) - 1)
