"""Snapshots that nobody asked for: by time, and at the end of each run."""

import json
import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from click.testing import CliRunner

from ding.config import ConfigValueError
from ding.data.safe_file import read_tree
from ding.entry import serial_pipeline
from ding.entry.cli import cli
from ding.entry.serial import run_saver
from ding.entry.serial.run_state import newest_good_snapshot
from ding.entry.snapshot_clock import SnapshotClock
from ding.utils.checkpoint import read_manifest
from ding.worker import AdvancedReplayBuffer
from tests.entry.serial.test_serial_exact_resume import config, digest_of

#: So often that each pass saves a snapshot.
ALWAYS_S = 1e-9


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def resume(*words: str) -> None:
    done = CliRunner().invoke(cli, ["-m", "serial", "--resume", "run", "--quiet", *words])
    assert done.exit_code == 0, done.output


def test_they_do_not_change_the_run() -> None:
    for name, every_s in (("always", ALWAYS_S), ("at_end", 600)):
        serial_pipeline(config(name, run_state_every_s=every_s), seed=0, max_train_iter=40)
    kept = sorted(path.name for path in Path("always/ckpt").glob("snapshot_*"))
    assert kept == ["snapshot_38", "snapshot_40"]
    assert [path.name for path in Path("at_end/ckpt").glob("snapshot_*")] == ["snapshot_40"]
    assert digest_of(Path("always/ckpt/snapshot_40")) == digest_of(Path("at_end/ckpt/snapshot_40"))


def test_the_command_line_knows_the_key() -> None:
    serial_pipeline(config("run"), seed=0, max_train_iter=4)
    resume("--train-iter", "12", "-o", f"run_state_every_s={ALWAYS_S}")
    assert {path.name for path in Path("run/ckpt").glob("snapshot_*")} == {"snapshot_10", "snapshot_12"}


def test_none_are_saved_without_a_time() -> None:
    serial_pipeline(config("run", run_state_every_s=0), seed=0, max_train_iter=10)
    assert not list(Path("run/ckpt").glob("snapshot_*"))


def test_five_times_resumed_a_run_begins_where_it_ended() -> None:
    serial_pipeline(config("run"), seed=0, max_env_step=64)
    ends = [read_manifest(newest_good_snapshot("run")).notes]
    for more in range(1, 6):
        resume("--env-step", str(64 + 64 * more))
        notes = read_manifest(newest_good_snapshot("run")).notes
        # 16 env steps and two updates in each pass, and the first ones until a sample is whole.
        assert 40 <= notes["env_step"] - ends[-1]["env_step"] <= 72
        assert 6 <= notes["train_iter"] - ends[-1]["train_iter"] <= 10
        assert json.loads(Path("run/result.json").read_text())["env_step"] == notes["env_step"]
        ends.append(notes)
    state = read_tree(newest_good_snapshot("run") / "state.safetensors", "ding.run_state")
    assert state["buffer"]["push_count"] >= 300


def test_a_run_resumed_from_its_end_equals_one_that_saved_there_and_continued() -> None:
    serial_pipeline(config("parts", run_state_freq=20), seed=0, max_train_iter=20)
    shutil.copytree("parts", "run")
    serial_pipeline(config("whole", run_state_freq=20), seed=0, max_train_iter=40)
    resume("--train-iter", "40")
    assert digest_of(Path("run/ckpt/snapshot_40")) == digest_of(Path("whole/ckpt/snapshot_40"))


def test_the_newest_is_the_one_that_was_written_last() -> None:
    serial_pipeline(config("run", run_state_every_s=ALWAYS_S), seed=0, max_train_iter=40)
    main, create = config("run", resume_training=True)
    main.policy.learn.learner = {"hook": {"load_ckpt_before_run": "run/ckpt/snapshot_38"}}
    main.policy.learn.update_per_collect = 1
    serial_pipeline((main, create), seed=0, max_train_iter=39)
    assert newest_good_snapshot("run") == Path("run/ckpt/snapshot_39")


def test_without_a_snapshot_a_run_resumes_from_its_newest_checkpoint(caplog) -> None:
    serial_pipeline(config("run"), seed=0, max_train_iter=20)
    shutil.rmtree("run/ckpt/snapshot_20")
    with caplog.at_level("INFO", "ding.entry"):
        resume("--train-iter", "30")
    assert "the replay buffer is filled anew" in caplog.text
    assert read_manifest(newest_good_snapshot("run")).notes["train_iter"] == 30


def test_without_either_it_says_so() -> None:
    serial_pipeline(config("run"), seed=0, max_train_iter=4)
    shutil.rmtree("run/ckpt")
    done = CliRunner().invoke(cli, ["-m", "serial", "--resume", "run"])
    assert (done.exit_code, "run holds neither a snapshot nor a checkpoint" in done.output) == (2, True)


Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("replaced", "value", "said"),
    [
        ("snapshot_clock.shutil.disk_usage", Usage(10**9, 10**9, 1000), "it takes .* free, less than three times"),
        ("serial.run_saver.available_memory_bytes", 10, "a copy of the replay buffer takes"),
    ],
)
def test_where_there_is_no_room_one_line_says_so(replaced, value, said, monkeypatch, caplog) -> None:
    monkeypatch.setattr(f"ding.entry.{replaced}", lambda *_: value)
    serial_pipeline(config("run"), seed=0, max_train_iter=10)
    assert json.loads(Path("run/result.json").read_text())["train_iter"] == 10
    assert not list(Path("run/ckpt").glob("snapshot_*"))
    lines = [line for line in caplog.messages if "no snapshot is saved" in line]
    assert len(lines) == 1
    assert re.search(said, lines[0])


def test_a_disk_that_fails_does_not_end_the_run(monkeypatch, caplog) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(run_saver, "write_tree", fail)
    serial_pipeline(config("run", run_state_every_s=ALWAYS_S), seed=0, max_train_iter=10)
    assert json.loads(Path("run/result.json").read_text())["train_iter"] == 10
    assert "no snapshot is saved, the one before is whole: OSError: [Errno 5]" in caplog.text


def test_a_buffer_without_a_state_does_not_end_the_run(monkeypatch, caplog) -> None:
    def fail(*_: object) -> None:
        raise NotImplementedError("this buffer has no state")

    monkeypatch.setattr(AdvancedReplayBuffer, "state_dict", fail)
    serial_pipeline(config("run", run_state_every_s=ALWAYS_S), seed=0, max_train_iter=10)
    assert json.loads(Path("run/result.json").read_text())["train_iter"] == 10
    assert "no snapshot is saved, the one before is whole: NotImplementedError: this buffer" in caplog.text
    assert not list(Path("run/ckpt").glob("snapshot_*"))


def test_the_clock() -> None:
    now = [0.0]
    clock = SnapshotClock({"run_state_every_s": 10}, lambda: now[0])
    assert not clock.is_due(1000)
    now[0] = 10.0
    assert clock.is_due(1000)
    clock.restart(1000)
    assert not clock.is_due(5000)
    by_iteration = SnapshotClock({"run_state_freq": 5, "run_state_every_s": 1}, lambda: now[0])
    now[0] = 1e6
    assert (by_iteration.is_due(4), by_iteration.is_due(5)) == (False, True)
    # Of several processes the first one decides.
    followed = SnapshotClock({}, lambda: now[0], agree=lambda own: True)
    assert followed.is_due(0)
    assert not SnapshotClock({"run_state_every_s": 0}, lambda: now[0], agree=lambda own: True).is_due(0)


@pytest.mark.parametrize("value", [-1, "often"])
def test_a_wrong_time_is_refused(value) -> None:
    with pytest.raises(ConfigValueError, match=r"policy\.learn\.run_state_every_s.*number"):
        serial_pipeline(config("run", run_state_every_s=value), seed=0, max_train_iter=4)
    assert not Path("run").exists()
