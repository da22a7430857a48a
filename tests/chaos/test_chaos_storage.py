"""R13, R14: the data folder of a run is full for a while, and some of its files are broken."""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import threading
import time

import pytest
from chaos_parts import ChaosRun

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

SHARE = 1 << 20
CONFIG = {
    "create.env": {"type": "ledger_env", "import_names": ["chaos_ledger"]},
    "create.comm_collector.max_data_bytes": SHARE,
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": 4,
    "main.env.collector_episode_num": 5,
    "main.env.evaluator_env_num": 1,
    "main.policy.other.commander.eval_interval": 3600,
    "main.policy.other.replay_buffer": {"replay_buffer_size": 2000},
    "main.policy.collect.collector": {"collector_num": 2, "chunk_rows": 64},
}


@pytest.fixture
def run(tmp_path):
    with contextlib.closing(ChaosRun(tmp_path, config={**CONFIG, "system.path_data": str(tmp_path / "data")})) as run:
        yield run


def counted(run, name):
    return run.status("buffers", {}).get(name, 0)


def goes_on(run, what, rows=500, iterations=50):
    had, begun = counted(run, "rows"), run.status("train_iter")
    run.wait_for(lambda: counted(run, "rows") >= had + rows, f"data {what}")
    run.wait_for(lambda: run.status("train_iter") >= begun + iterations, f"training {what}")


def collectors_wait(run, folder):
    """Both collectors say that they wait for room, and the learner trains on what there is."""
    for number in range(2):
        log = next(folder.glob(f"*/log/collector{number}_process.txt"))
        run.wait_for(lambda: "cannot be stored, collecting waits" in log.read_text(), "full folder")  # noqa: B023
    begun = run.status("train_iter")
    run.wait_for(lambda: run.status("train_iter") >= begun + 50, "training without new data")


def test_a_folder_without_room_holds_the_collectors_back_and_they_go_on_when_there_is_some(run, tmp_path):
    goes_on(run, "at first")
    filler = tmp_path / "data" / "filler.chunk"
    with open(filler, "wb") as file:
        file.truncate(SHARE)
    collectors_wait(run, tmp_path)
    run.wait_for(lambda: "the share of" in run.output, "warning to the user")
    filler.unlink()
    goes_on(run, "when there is room again")
    assert run.status("tasks")["failed"] == 0
    assert not list((tmp_path / "data").glob("quarantine/*"))


@pytest.fixture
def small_disk(tmp_path):
    """A memory file system of 16 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield folder
    # Processes of the run that were killed with it let go of their files a moment later than the run is gone.
    tick, deadline_s = threading.Event(), time.monotonic() + 30.0
    while subprocess.run(["umount", str(folder)], capture_output=True).returncode:
        assert time.monotonic() < deadline_s, f"{folder} is still in use"
        tick.wait(0.05)


def fill(folder):
    """Leave no room in a file system, also where some was freed since."""
    with open(folder / "filler", "ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


def test_a_full_file_system_holds_the_collectors_back_and_they_go_on_when_there_is_room(small_disk, tmp_path):
    config = {**CONFIG, "create.comm_collector.max_data_bytes": 1 << 30, "system.path_data": str(small_disk / "data")}
    started = ChaosRun(tmp_path, config=config)
    with contextlib.closing(started) as run:
        goes_on(run, "at first")
        fill(small_disk)
        collectors_wait(run, tmp_path)
        (small_disk / "filler").unlink()
        goes_on(run, "when there is room again")
        assert run.status("tasks")["failed"] == 0
        assert not list((small_disk / "data").glob("quarantine/*"))


@pytest.mark.slow
def test_a_run_whose_folder_is_on_a_full_disk_waits_and_goes_on(small_disk, tmp_path):
    """Its checkpoints wait for room, its logs, curves and status do without, and nobody fails."""
    config = {
        **CONFIG,
        "system.path_data": str(tmp_path / "data"),
        "main.exp_name": str(small_disk / "run"),
        "main.policy.learn.run_state_freq": 100,
        "main.policy.learn.learner.on_disk_full": "wait",
    }
    with contextlib.closing(ChaosRun(tmp_path, config=config)) as run:
        goes_on(run, "at first")
        run.wait_for(lambda: fill(small_disk) or "training waits until there is some" in run.output, "full disk")
        (small_disk / "filler").unlink()
        goes_on(run, "when there is room again")
        assert run.status("tasks")["failed"] == 0
        assert "Traceback" not in run.output


class Vandal(threading.Thread):
    """Breaks one of a hundred files: every other one loses its end, the others get a wrong byte."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.over, self.broken = folder, threading.Event(), 0
        self._chance, self._seen = random.Random(0), set()

    def run(self):
        while not self.over.wait(0.005):
            for path in list(self.folder.glob("*.chunk")):
                if path.name not in self._seen and not self._seen.add(path.name) and self._chance.random() < 0.01:
                    with contextlib.suppress(FileNotFoundError):  # it is gone already
                        self._break(path)

    def _break(self, path):
        content = path.read_bytes()
        self.broken += 1
        content = content[:-7] if self.broken % 2 else content[:-7] + bytes([content[-7] ^ 1]) + content[-6:]
        # As another file in its place: an open one is not changed under its reader.
        path.with_suffix(".broken").write_bytes(content)
        os.replace(path.with_suffix(".broken"), path)


def test_broken_files_are_put_aside_and_counted_and_the_run_goes_on(tmp_path):
    data, rows = {"system.path_data": str(tmp_path / "data")}, 16
    small = {"main.policy.collect.collector": {"collector_num": 2, "chunk_rows": rows}}
    with contextlib.closing(ChaosRun(tmp_path, config={**CONFIG, **data, **small})) as run:
        goes_on(run, "at first")
        break_files(run, tmp_path, rows)
        goes_on(run, "after broken files")
        assert run.status("tasks")["failed"] == 0
        assert run.pid("learner0") is not None


def break_files(run, tmp_path, rows):
    vandal = Vandal(tmp_path / "data")
    vandal.start()
    run.wait_for(lambda: vandal.broken >= 6 and counted(run, "broken_rows") >= 2 * rows, "broken files", 400)
    vandal.over.set()
    vandal.join()
    aside = [path.name for path in (tmp_path / "data" / "quarantine").iterdir()]
    assert 2 <= len(aside) <= vandal.broken
