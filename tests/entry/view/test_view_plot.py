"""Reading event files and drawing curves."""

import struct

import numpy as np
import pytest
from click.testing import CliRunner
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter

from ding.config import ConfigValueError
from ding.entry import plot
from ding.entry.cli import cli
from ding.entry.view.event_files import EventFile, Scalars, iter_records, read_files
from ding.entry.view.plot import DEFAULT_TAG, learning_curves
from ding.entry.view.runs import event_files, find_runs, label_of
from ding.utils import LazyWriter, write_scalars
from ding.utils.file_helper import FileRefusedError


def write_run(folder, points, tag=DEFAULT_TAG):
    writer = SummaryWriter(str(folder / "log" / "serial"))
    for step, value in points:
        writer.add_scalar("other/tag", 0.0, step)
        writer.add_scalar(tag, value, step)
    writer.close()
    return folder


def test_scalars_come_back_as_written_and_the_last_of_a_step_counts(tmp_path):
    write_run(tmp_path, [(10, 1.0), (0, 0.5), (10, 2.0)])
    found = read_files(event_files(tmp_path))
    assert set(found) == {DEFAULT_TAG, "other/tag"}
    assert (found[DEFAULT_TAG].steps.tolist(), found[DEFAULT_TAG].values.tolist()) == ([10, 0, 10], [1.0, 0.5, 2.0])
    newest = found[DEFAULT_TAG].newest_by_step()
    assert (newest.steps.tolist(), newest.values.tolist()) == ([0, 10], [0.5, 2.0])
    assert len(newest.wall_s) == 2


def test_every_step_and_kind_of_event_is_read_as_protobuf_reads_it(tmp_path):
    writer = SummaryWriter(str(tmp_path))
    steps = [0, 1, 127, 128, 16383, 16384, 2**31, 2**53, -5, 3]
    for step in steps:
        writer.add_scalar("a", step + 0.5, step)
        writer.add_scalar("b" * 130, -1.0, step)
        writer.add_scalar("\u00e4/\u03b2", float("nan"), step)
        for tags in (("a", "c", "d" * 300), ("c", "a", "d" * 300), ("e",) * 2):
            values = [Summary.Value(tag=tag, simple_value=step * n) for n, tag in enumerate(tags, 1)]
            writer.file_writer.add_summary(Summary(value=values), step)
    mixed = [Summary.Value(tag="a", simple_value=8.0), Summary.Value(tag="f", image=Summary.Image(height=1))]
    writer.file_writer.add_summary(Summary(value=mixed), 8)
    writer.add_histogram("histogram", np.arange(100.0), 7)
    writer.add_text("text", "no scalar", 7)
    writer.add_image("image", np.zeros((3, 64, 64), np.uint8), 7)
    writer.close()
    (file,) = event_files(tmp_path)
    expected = {}
    for data in iter_records(file):
        event = Event.FromString(data)
        for value in event.summary.value:
            if value.HasField("simple_value"):
                expected.setdefault(value.tag, []).append((event.step, event.wall_time, value.simple_value))
    found = EventFile(file).read_new()
    assert set(found) == set(expected) == {"a", "b" * 130, "c", "d" * 300, "e", "\u00e4/\u03b2"}
    for tag, rows in expected.items():
        np.testing.assert_array_equal(
            np.stack([found[tag].steps, found[tag].wall_s, found[tag].values], axis=1), np.array(rows)
        )


def test_several_values_in_one_event_are_read(tmp_path):
    values = [Summary.Value(tag="a", simple_value=1.0), Summary.Value(tag="b", simple_value=2.0)]
    writer = SummaryWriter(str(tmp_path))
    writer.file_writer.add_event(Event(step=3, summary=Summary(value=values)))
    writer.close()
    found = read_files(event_files(tmp_path))
    assert {tag: (one.steps.tolist(), one.values.tolist()) for tag, one in found.items()} == {
        "a": ([3], [1.0]),
        "b": ([3], [2.0]),
    }


def test_many_scalars_of_one_step_are_read(tmp_path):
    values = {f"a_name_of_usual_length/{number}": float(number) for number in range(900)}
    writer = LazyWriter(str(tmp_path))
    for step in (1, 2):
        write_scalars(writer, "learner_iter/", values, step)
    writer.close()
    found = read_files(event_files(tmp_path))
    assert {tag: (one.steps.tolist(), one.values.tolist()) for tag, one in found.items()} == {
        f"learner_iter/{name}": ([1, 2], [value, value]) for name, value in values.items()
    }


def test_a_growing_file_is_read_on_from_where_it_ended(tmp_path):
    write_run(tmp_path / "whole", [(step, float(step)) for step in range(50)])
    (whole,) = event_files(tmp_path / "whole")
    data = whole.read_bytes()
    growing = tmp_path / "events.out.tfevents.1"
    growing.write_bytes(b"")
    file, steps = EventFile(growing), []
    for end in range(0, len(data) + 97, 97):
        growing.write_bytes(data[:end])
        steps += file.read_new().get(DEFAULT_TAG, Scalars()).steps.tolist()
    assert steps == list(range(50))


def test_a_cut_off_record_ends_the_file(tmp_path):
    write_run(tmp_path, [(0, 1.0), (1, 2.0)])
    (file,) = (tmp_path / "log" / "serial").iterdir()
    whole = list(iter_records(file))
    file.write_bytes(file.read_bytes()[:-3])
    assert list(iter_records(file)) == whole[:-1]


def scalar_events(folder, names=60):
    """Rows that share a layout, or are alone in theirs, some of several blocks of the checksum; and a text."""
    writer = SummaryWriter(str(folder))
    for step in (0, 1, 2, 300):
        writer.add_scalar("a", step + 0.5, step)
    long = {f"a_name_of_usual_length/{number}": number for number in range(names)}
    for step in (1, 2):
        values = [Summary.Value(tag=tag, simple_value=value + step) for tag, value in long.items()]
        writer.file_writer.add_summary(Summary(value=values), step)
    writer.add_text("text", "no scalar", 7)
    writer.close()
    (file,) = event_files(folder)
    return file


# Each byte of a small file, and some of one whose records have several blocks.
@pytest.mark.parametrize(("names", "each"), [(9, 1), (60, 11)])
def test_no_flipped_bit_becomes_a_point_of_a_curve(tmp_path, names, each):
    file = scalar_events(tmp_path, names)
    good = file.read_bytes()
    assert len(EventFile(file).read_new()) == names + 1
    rng = np.random.default_rng(0)
    for place in range(0, len(good), each):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(bad)
        with pytest.raises(FileRefusedError, match=str(file)):
            EventFile(file).read_new()
    file.write_bytes(good)


def test_a_damaged_file_is_read_again_and_says_where_it_is_damaged(tmp_path):
    file = scalar_events(tmp_path)
    good = file.read_bytes()
    reader, later = EventFile(file), good.rindex(b"no scalar")
    at = sum(16 + len(record) for record in list(iter_records(file))[:-1])
    file.write_bytes(good[:at])
    assert len(reader.read_new()) == 61
    file.write_bytes(good[:later] + b"N" + good[later + 1 :])
    for _ in range(2):
        with pytest.raises(FileRefusedError, match=f"is damaged: the record at byte {at} does not have its checksum"):
            reader.read_new()
    file.write_bytes(good)
    assert reader.read_new() == {}


@pytest.mark.parametrize("record", [b"\xff" * 20, b"\xff" * 2000], ids=["short", "long"])
def test_a_record_that_is_no_event_is_told(tmp_path, record):
    writer = RecordWriter(str(tmp_path / "events.out.tfevents.1"))
    writer.write(record)
    writer.close()
    (file,) = event_files(tmp_path)
    with pytest.raises(FileRefusedError, match=r"is damaged: the record at byte \d+ is no event"):
        EventFile(file).read_new()


def test_an_empty_record_is_an_event(tmp_path):
    writer = RecordWriter(str(tmp_path / "events.out.tfevents.1"))
    writer.write(b"")
    writer.close()
    assert read_files(event_files(tmp_path)) == {}


def test_the_command_names_the_damaged_file(tmp_path):
    file = scalar_events(tmp_path / "run" / "log")
    data = file.read_bytes()
    place = data.rindex(b"no scalar")
    file.write_bytes(data[:place] + b"N" + data[place + 1 :])
    done = CliRunner().invoke(cli, ["plot", str(tmp_path / "run"), "--tag", "a", "-o", str(tmp_path / "a.png")])
    assert done.exit_code == 2
    assert done.output.startswith(f"ding: {file} is damaged: ")


def test_a_file_of_another_kind_is_told(tmp_path):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(struct.pack("<QI", 3, 12345) + b"abcdefg")
    with pytest.raises(ValueError, match="is this an event file"):
        list(iter_records(file))


@pytest.mark.parametrize(
    ("run", "label"),
    [
        ("cartpole/seed0", "cartpole"),
        ("cartpole/seed12_260101_120000", "cartpole"),
        ("cartpole_dqn_seed3", "cartpole_dqn"),
        ("cartpole_dqn_260101_120000_1", "cartpole_dqn"),
        ("cartpole_dqn", "cartpole_dqn"),
        ("seed0", "seed0"),
    ],
)
def test_runs_of_one_experiment_share_a_label(run, label, tmp_path):
    from pathlib import Path

    assert label_of(Path(run)) == label


def test_a_curve_goes_over_seeds_and_a_solved_run_keeps_its_value(tmp_path):
    write_run(tmp_path / "a" / "seed0", [(0, 0.0), (10, 10.0)])
    write_run(tmp_path / "a" / "seed1", [(0, 2.0), (20, 22.0)])
    write_run(tmp_path / "b", [(5, 1.0)])
    a, b = learning_curves([tmp_path / "a", tmp_path / "b"])
    assert (a.runs, b.runs) == (2, 1)
    assert a.steps.tolist() == [0, 10, 20]
    assert a.iqm.tolist() == [1.0, 11.0, 16.0]
    # With two runs, each is drawn twice in a quarter of the draws.
    assert (a.low.tolist(), a.high.tolist()) == ([0.0, 10.0, 10.0], [2.0, 12.0, 22.0])
    assert (b.steps.tolist(), b.iqm.tolist()) == ([5], [1.0])
    np.testing.assert_array_equal(b.low, b.high)


def test_a_curve_is_the_mean_of_the_middle_half_of_the_runs_that_have_begun(tmp_path, caplog):
    for seed, value in enumerate((0.0, 4.0, 6.0, 1000.0)):
        write_run(tmp_path / f"a_seed{seed}", [(10 * (seed == 3), value), (20, value)])
    write_run(tmp_path / "b_seed0", [(0, 1.0), (10, float("nan")), (20, 3.0)])
    a, b = learning_curves([tmp_path])
    np.testing.assert_allclose(a.iqm, [10 / 3, 5.0, 5.0])
    assert (b.steps.tolist(), b.iqm.tolist()) == ([0, 20], [1.0, 3.0])
    assert f"1 values of {DEFAULT_TAG} are not finite and are left out" in caplog.text


def test_the_picture_is_a_png(tmp_path):
    write_run(tmp_path / "a_seed0", [(0, 0.0), (10, 10.0)])
    write_run(tmp_path / "a_seed1", [(0, 1.0), (10, 9.0)])
    out = plot([tmp_path / "a_seed0", tmp_path / "a_seed1"], tmp_path / "curve.png")
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(ConfigValueError, match="there is no such folder"):
        find_runs([tmp_path / "nothing"])
    with pytest.raises(ConfigValueError, match="no experiment is in this folder"):
        find_runs([tmp_path])
    write_run(tmp_path / "a", [(0, 0.0)])
    assert find_runs([tmp_path, tmp_path / "a"]) == [tmp_path / "a"]
    with pytest.raises(ConfigValueError, match="Did you mean 'evaluator_step/reward_mean'"):
        plot([tmp_path], tmp_path / "x.png", tag="evaluator_step/reward_men")
    with pytest.raises(ConfigValueError, match="there is no folder"):
        plot([tmp_path], tmp_path / "no" / "x.png")
