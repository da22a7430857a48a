"""Reading event files and drawing curves."""

import struct

import numpy as np
import pytest
from tensorboardX import SummaryWriter

from ding.config import ConfigValueError
from ding.entry import plot
from ding.entry.view.event_files import iter_records, read_scalars, tags_in
from ding.entry.view.plot import DEFAULT_TAG, find_runs, label_of, learning_curves


def write_run(folder, points, tag=DEFAULT_TAG):
    writer = SummaryWriter(str(folder / "log" / "serial"))
    for step, value in points:
        writer.add_scalar("other/tag", 0.0, step)
        writer.add_scalar(tag, value, step)
    writer.close()
    return folder


def test_scalars_come_back_in_order_and_the_last_of_a_step_counts(tmp_path):
    write_run(tmp_path, [(10, 1.0), (0, 0.5), (10, 2.0)])
    steps, values = read_scalars(tmp_path / "log" / "serial", DEFAULT_TAG)
    assert steps.tolist() == [0, 10]
    assert values.tolist() == [0.5, 2.0]
    assert tags_in(tmp_path / "log" / "serial") == {DEFAULT_TAG, "other/tag"}
    assert len(read_scalars(tmp_path / "log" / "serial", "nothing")[0]) == 0


def test_a_cut_off_record_ends_the_file(tmp_path):
    write_run(tmp_path, [(0, 1.0), (1, 2.0)])
    (file,) = (tmp_path / "log" / "serial").iterdir()
    whole = list(iter_records(file))
    file.write_bytes(file.read_bytes()[:-3])
    assert list(iter_records(file)) == whole[:-1]


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


def test_the_mean_goes_over_seeds_and_a_solved_run_keeps_its_value(tmp_path):
    write_run(tmp_path / "a" / "seed0", [(0, 0.0), (10, 10.0)])
    write_run(tmp_path / "a" / "seed1", [(0, 2.0), (20, 22.0)])
    write_run(tmp_path / "b", [(5, 1.0)])
    a, b = learning_curves([tmp_path / "a", tmp_path / "b"])
    assert (a.runs, b.runs) == (2, 1)
    assert a.steps.tolist() == [0, 10, 20]
    assert a.mean.tolist() == [1.0, 11.0, 16.0]
    assert (a.high - a.mean).tolist() == [1.0, 1.0, 6.0]
    assert (a.mean - a.low).tolist() == [1.0, 1.0, 6.0]
    assert (b.steps.tolist(), b.mean.tolist()) == ([5], [1.0])
    np.testing.assert_array_equal(b.low, b.high)


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
