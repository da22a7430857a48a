"""What a serial run leaves behind: under damage, without space, after an error, by time."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ding.entry import serial_pipeline
from ding.entry.cli import cli
from ding.entry.serial.run_state import newest_good_snapshot
from ding.utils.checkpoint import checked_manifest, read_checkpoint
from ding.utils.file_helper import FileRefusedError
from ding.worker.learner.saving import CheckpointSaver, DiskFullError
from tests.entry.serial.test_serial_exact_resume import config, digest


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize("part", ["state.safetensors", "learner.pth.tar", "manifest.json"])
def test_a_damaged_snapshot_is_refused_and_the_one_before_is_taken(part, caplog) -> None:
    serial_pipeline(config("run", run_state_freq=20), seed=0, max_train_iter=40)
    damaged = Path("run/ckpt/snapshot_40")
    flip_a_bit(damaged / part)
    main, create = config("run", resume_training=True)
    main.policy.learn.learner = {"hook": {"load_ckpt_before_run": str(damaged)}}
    with pytest.raises(FileRefusedError, match=r"snapshot_40.* the newest good one"):
        serial_pipeline((main, create), seed=0, max_train_iter=60)
    assert newest_good_snapshot("run") == Path("run/ckpt/snapshot_20")
    assert "snapshot_40 is passed over" in caplog.text


def test_the_command_line_says_it_in_one_sentence() -> None:
    serial_pipeline(config("run", run_state_freq=20), seed=0, max_train_iter=20)
    file = Path("run/ckpt/iteration_20.pth.tar")
    file.unlink()
    file.write_bytes(b"")
    done = CliRunner().invoke(cli, ["-m", "serial", "-c", "run/total_config.py", "--load-path", str(file)])
    assert done.exit_code == 2
    last = done.output.strip().splitlines()[-1]
    assert last.startswith("ding: ")
    assert "iteration_20.pth.tar is empty; the newest good one beside it is" in last


def test_the_last_ones_and_the_best_are_kept() -> None:
    main, create = config("run", run_state_freq=10)
    main.policy.learn.learner = {"keep_last": 3, "hook": {"save_ckpt_after_iter": 5}}
    serial_pipeline((main, create), seed=0, max_train_iter=50)
    names = {path.name for path in Path("run/ckpt").iterdir() if path.is_dir()}
    assert names == {f"snapshot_{n}" for n in (30, 40, 50)} | {f"iteration_{n}" for n in (40, 45, 50)} | {"ckpt_best"}
    for name in names:
        checked_manifest(Path("run/ckpt") / name)


@pytest.mark.parametrize("name", ["ckpt_best.pth.tar", "ckpt_best", "ckpt_exception.pth.tar"])
def test_a_checkpoint_of_the_learner_alone_is_gone_on_from(name, caplog) -> None:
    caplog.set_level("INFO", "ding.entry")
    serial_pipeline(config("run", run_state_freq=20), seed=0, max_train_iter=40)
    for part in (Path("run/ckpt/ckpt_best.pth.tar"), Path("run/ckpt/ckpt_best")):
        copied = part.with_name(part.name.replace("best", "exception"))
        (shutil.copytree if part.is_dir() else shutil.copy)(part, copied)
    main, create = config("on", resume_training=True)
    main.policy.learn.learner = {"hook": {"load_ckpt_before_run": f"run/ckpt/{name}"}}
    serial_pipeline((main, create), seed=0, max_train_iter=60)
    assert "the replay buffer is filled anew" in caplog.text
    assert read_checkpoint("on/ckpt/iteration_60.pth.tar")["last_iter"] == 60


def test_a_run_that_goes_on_in_another_folder_has_a_best_policy_there() -> None:
    serial_pipeline(config("run", run_state_freq=20), seed=0, max_train_iter=40)
    main, create = config("on", resume_training=True)
    main.policy.learn.learner = {"hook": {"load_ckpt_before_run": "run/ckpt/snapshot_40"}}
    serial_pipeline((main, create), seed=0, max_train_iter=80)
    assert read_checkpoint("on/ckpt/ckpt_best.pth.tar")["last_iter"] >= 40


def test_an_error_leaves_a_checkpoint(monkeypatch) -> None:
    main, create = config("run")
    calls = []

    def fail(self, data):
        calls.append(1)
        if len(calls) == 9:
            raise RuntimeError("a bug")
        return forward(self, data)

    from ding.policy import DQNPolicy

    forward = DQNPolicy._forward_learn
    monkeypatch.setattr(DQNPolicy, "_forward_learn", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        serial_pipeline((main, create), seed=0, max_train_iter=50)
    assert read_checkpoint("run/ckpt/ckpt_exception.pth.tar")["last_iter"] == 8


def full(*args: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_without_space_a_run_ends_in_one_sentence(monkeypatch) -> None:
    whole = config("run", run_state_freq=20)
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: full() if "ckpt" in os.readlink(f"/proc/self/fd/{fd}") else real(fd))
    with pytest.raises(DiskFullError, match="no space for the checkpoint"):
        serial_pipeline(whole, seed=0, max_train_iter=40)
    assert not [path for path in Path("run/ckpt").rglob("*") if path.is_file()]


def test_a_run_waits_for_space_and_is_none_the_worse(monkeypatch) -> None:
    serial_pipeline(config("undisturbed", run_state_freq=20), seed=0, max_train_iter=40)
    main, create = config("run", run_state_freq=20)
    main.policy.learn.learner = {"on_disk_full": "wait"}
    tries = []
    real = os.fsync

    def full_at_times(descriptor):
        if "ckpt" in os.readlink(f"/proc/self/fd/{descriptor}"):
            tries.append(1)
            if len(tries) in (2, 5, 6):
                full()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full_at_times)
    monkeypatch.setattr("ding.worker.learner.saving._LOOK_AGAIN_S", 0.0)
    serial_pipeline((main, create), seed=0, max_train_iter=40)
    assert digest(Path("run/ckpt/iteration_40.pth.tar")) == digest(Path("undisturbed/ckpt/iteration_40.pth.tar"))


def test_a_wait_for_space_ends_when_the_run_is_to_stop() -> None:
    saver = CheckpointSaver(on_disk_full="wait", look_again_s=0)
    tries = []

    def write() -> None:
        tries.append(1)
        if len(tries) == 3:
            saver.stop_waiting()
        full()

    with pytest.raises(DiskFullError):
        saver.when_there_is_space(write, "x")
    assert len(tries) == 3


@pytest.mark.parametrize(("key", "value"), [("keep_last", 0), ("keep_last", True), ("on_disk_full", "pray")])
def test_a_setting_that_is_none_is_refused_by_name(key, value) -> None:
    with pytest.raises(ValueError, match=key):
        CheckpointSaver(**{key: value})


def test_checkpoints_by_time() -> None:
    main, create = config("run")
    main.policy.learn.learner = {"hook": {"save_ckpt_every_minutes": 1e-9}}
    serial_pipeline((main, create), seed=0, max_train_iter=4)
    names = {path.name for path in Path("run/ckpt").glob("*.pth.tar")}
    assert {f"iteration_{n}.pth.tar" for n in range(4)} <= names
