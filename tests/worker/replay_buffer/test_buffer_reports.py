import subprocess
import sys
import threading

import numpy as np
import pytest
from buffer_rows import batch

from ding.data.replay.reports import ThruputCounters
from ding.worker import AdvancedReplayBuffer, NaiveReplayBuffer
from ding.worker.replay_buffer.utils import (
    PeriodicThruputMonitor,
    SampledDataAttrMonitor,
    UsedDataRemover,
    generate_id,
)


class Scalars:
    """A tensorboard writer that remembers."""

    def __init__(self):
        self.seen = []
        self.closed = False

    def add_scalar(self, tag, value, step):
        self.seen.append((tag, value, step))

    def flush(self):
        pass

    def close(self):
        self.closed = True


class Lines:
    def __init__(self):
        self.lines = []
        self.written = threading.Event()

    def info(self, text, *args):
        self.lines.append(text % args)
        self.written.set()


def test_throughput_report():
    counters, scalars, lines = ThruputCounters(), Scalars(), Lines()
    monitor = PeriodicThruputMonitor("buf", {"seconds": 3600}, lines, scalars, counters)
    counters.pushed, counters.sampled, counters.removed, counters.have = 5, 8, 2, 3
    monitor.report()
    counters.pushed += 1
    monitor.report()
    assert scalars.seen == [
        ("buf_sec/pushed_in", 5.0, 0), ("buf_sec/sampled_out", 8.0, 0), ("buf_sec/removed", 2.0, 0),
        ("buf_sec/current_have", 3.0, 0), ("buf_sec/pushed_in", 1.0, 1), ("buf_sec/sampled_out", 0.0, 1),
        ("buf_sec/removed", 0.0, 1), ("buf_sec/current_have", 3.0, 1),
    ]  # fmt: skip
    assert "pushed_in" in lines.lines[0]
    monitor.close()


def test_throughput_monitor_reports_and_ends():
    lines = Lines()
    monitor = PeriodicThruputMonitor("buf", {"seconds": 0.01}, lines, None)
    monitor.push_data_count += 3
    monitor.valid_count = 2
    assert lines.written.wait(30)
    monitor.close()
    monitor.close()
    assert "buf throughput" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ValueError, match="period"):
        PeriodicThruputMonitor("buf", {"seconds": 0}, lines, None)


def test_a_period_in_which_nothing_happens_is_not_reported():
    """The buffer of an agent stays open between two trainings, whose folder is complete."""
    looked, looks = threading.Event(), []

    class Watched(ThruputCounters):
        @property
        def pushed(self):
            looks.append(None)
            if len(looks) == 5:
                looked.set()
            return 0

        @pushed.setter
        def pushed(self, value):
            pass

    lines = Lines()
    monitor = PeriodicThruputMonitor("buf", {"seconds": 0.01}, lines, None, Watched())
    assert looked.wait(30)
    monitor.counters.sampled += 1
    assert lines.written.wait(30)
    monitor.close()
    assert len(lines.lines) == 1


def test_throughput_monitor_properties():
    monitor = PeriodicThruputMonitor("buf", {"seconds": 3600}, Lines(), None)
    monitor.push_data_count, monitor.sample_data_count, monitor.remove_data_count, monitor.valid_count = 1, 2, 3, 4
    monitor.sample_data_count += 5
    assert (monitor.push_data_count, monitor.sample_data_count) == (1, 7)
    assert (monitor.remove_data_count, monitor.valid_count) == (3, 4)
    monitor.close()


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_buffers_count_what_goes_in_and_out(make, cls):
    buffer = make(cls, 8)
    buffer.push(batch(0, 20), 0)
    buffer.push(batch(20, 3), 0)
    buffer.sample(4, 0)
    counters = buffer.counters
    assert (*counters.snapshot(), counters.have) == (23, 4, 15, 8)
    buffer.clear()
    assert (*counters.snapshot(), counters.have) == (23, 4, 23, 0)


def test_attribute_monitor_aggregates_over_the_last_calls():
    monitor = SampledDataAttrMonitor(2)
    assert monitor.summary() == {}
    for scale in (100, 1, 2):
        monitor.record(np.array([1, 3]) * scale, np.array([0.5, 1.5]) * scale, np.array([0, 4]) * scale)
    assert monitor.summary() == {
        "use_avg": 3.0, "use_max": 6.0, "priority_avg": 1.5, "priority_max": 3.0, "priority_min": 0.5,
        "staleness_avg": 3.0, "staleness_max": 8.0,
    }  # fmt: skip
    with pytest.raises(ValueError, match="average_range"):
        SampledDataAttrMonitor(0)


@pytest.mark.parametrize(("train_iter", "envstep"), [(7, 50), (-1, 50), (7, -1)])
def test_sample_reports(train_iter, envstep):
    scalars = Scalars()
    buffer = AdvancedReplayBuffer(
        {"replay_buffer_size": 8, "monitor": {"sampled_data_attr": {"print_freq": 2}}}, scalars, instance_name="buf"
    )
    buffer.push(batch(0, 8), envstep)
    buffer.sample(4, train_iter)
    first = list(scalars.seen)
    buffer.sample(4, train_iter)
    assert scalars.seen == first
    buffer.sample(4, train_iter)
    assert len(scalars.seen) == 2 * len(first)
    names = {
        "use_avg", "use_max", "priority_avg", "priority_max", "priority_min", "staleness_avg", "staleness_max", "beta"
    }  # fmt: skip
    expected = {(f"buf_iter/{name}", train_iter) for name in names if train_iter != -1}
    expected |= {(f"buf_step/{name}", envstep) for name in names if envstep != -1}
    assert {(tag, step) for tag, _, step in scalars.seen} == expected
    buffer.close()
    assert not scalars.closed


def test_reports_go_on_in_their_rhythm_after_a_state_was_loaded():
    seen = []
    for calls_before in (2, 3):
        scalars = Scalars()
        config = {"replay_buffer_size": 8, "monitor": {"sampled_data_attr": {"print_freq": 4}}}
        buffer, other = (AdvancedReplayBuffer(config, to, instance_name="buf") for to in (Scalars(), scalars))
        buffer.push(batch(0, 8), 0)
        for _ in range(calls_before):
            buffer.sample(4, 0)
        other.load_state_dict(buffer.state_dict())
        for number in range(4):
            other.sample(4, number)
        seen.append({step for tag, _, step in scalars.seen if tag == "buf_iter/beta"})
        buffer.close()
        other.close()
    assert seen == [{2}, {1}]


def test_generate_id():
    assert generate_id("buffer", 12) == "buffer_12"


# ------------------------------------------------------------------ used data


def metas(tmp_path, first, count):
    paths = [tmp_path / f"data_{number}" for number in range(first, first + count)]
    for path in paths:
        path.write_text("x")
    return [{"data_id": str(path)} for path in paths]


def left(tmp_path):
    return sorted(int(path.name.split("_")[1]) for path in tmp_path.glob("data_*"))


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_files_of_overwritten_and_cleared_elements_are_removed(cls, tmp_path):
    buffer = cls({"replay_buffer_size": 10, "enable_track_used_data": True})
    buffer.start()
    buffer.push(metas(tmp_path, 0, 10), 0)
    buffer.push(metas(tmp_path, 10, 8), 0)
    buffer.engine.stop_removing()
    assert left(tmp_path) == list(range(8, 18))
    buffer.start()
    buffer.push(metas(tmp_path, 18, 25), 0)
    buffer.engine.stop_removing()
    assert left(tmp_path) == list(range(33, 43))
    buffer.start()
    buffer.clear()
    buffer.close()
    assert left(tmp_path) == []


def test_used_up_elements_keep_their_files_until_the_slot_is_taken(tmp_path):
    buffer = AdvancedReplayBuffer({"replay_buffer_size": 4, "enable_track_used_data": True, "max_use": 1})
    buffer.start()
    buffer.push(metas(tmp_path, 0, 4), 0)
    old = buffer.sample(4, 0)
    assert (buffer.count(), buffer.sample(1, 0)) == (0, None)
    buffer.update({
        "priority": [1.0] * 4, "replay_unique_id": [one["replay_unique_id"] for one in old],
        "replay_buffer_idx": [one["replay_buffer_idx"] for one in old],
    })  # fmt: skip
    assert (buffer.count(), buffer.dropped_update_count) == (0, 4)
    buffer.push(metas(tmp_path, 4, 3), 0)
    buffer.engine.stop_removing()
    assert left(tmp_path) == [3, 4, 5, 6]
    buffer.start()
    buffer.close()
    assert left(tmp_path) == []


def test_stale_elements_lose_their_files(tmp_path):
    buffer = AdvancedReplayBuffer({"replay_buffer_size": 4, "enable_track_used_data": True, "max_staleness": 5})
    buffer.start()
    buffer.push([{**meta, "collect_iter": 3} for meta in metas(tmp_path, 0, 2)], 0)
    assert buffer.sample(1, 9) is None
    buffer.close()
    assert left(tmp_path) == []


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_elements_without_data_id_are_refused_when_tracked(make, cls):
    buffer = make(cls, 4, enable_track_used_data=True)
    with pytest.raises(AssertionError, match="data_id"):
        buffer.push([{"data_id": "a"}, {"other": 1}], 0)
    assert buffer.count() == 0


def test_files_lie_in_the_folder_of_the_config(make, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "mine").write_text("x")
    buffer = make(NaiveReplayBuffer, 4, enable_track_used_data=True, path_data=str(tmp_path / "files"))
    buffer.start()
    with pytest.raises(AssertionError, match="leads out of the folder"):
        buffer.push({"data_id": "../other"}, 0)
    buffer.push({"data_id": "mine"}, 0)
    buffer.close()
    assert list((tmp_path / "files").iterdir()) == []


def test_remover_stays_in_its_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine").write_text("x")
    (tmp_path / "other").write_text("x")
    remover = UsedDataRemover(str(folder))
    for bad in ("../other", str(tmp_path / "other"), ".", 5):
        with pytest.raises(AssertionError, match="data_id"):
            remover.add_used_data({"data_id": bad})
    remover.start()
    remover.add_used_data({"data_id": "mine"})
    remover.add_used_data({"data_id": "not there"})
    remover.close()
    remover.close()
    assert [path.name for path in tmp_path.iterdir()] == ["folder", "other"] or (tmp_path / "other").exists()
    assert list(folder.iterdir()) == []


def test_a_buffer_that_outlives_its_script_is_silent(tmp_path):
    code = """
import threading
from easydict import EasyDict
from ding.worker import create_buffer

# A module that the interpreter clears after ours.
threading.kept = create_buffer(EasyDict(type="naive", replay_buffer_size=10), exp_name="run")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
