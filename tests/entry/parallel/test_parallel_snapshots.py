"""Snapshots of a parallel run: what comes back after everything was killed, also in the middle of a snapshot."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch

from ding.config import ConfigValueError, compile_config_parallel, read_config_with_system
from ding.data import TransitionBatch
from ding.entry import parallel_pipeline
from ding.entry.parallel.reports import with_run_figures
from ding.entry.parallel.snapshots import (
    JOURNAL,
    KeptPlanes,
    SnapshotTaker,
    newest_snapshot,
    restore_snapshot,
    save_snapshot,
)
from ding.entry.snapshot_clock import SnapshotClock
from ding.league import create_league
from ding.parallel.planes import open_planes
from ding.parallel.planes.file.weight_plane import FileWeightPlane
from ding.parallel.planes.seal import Seal
from ding.utils.checkpoint import read_checkpoint, save_checkpoint
from ding.worker.coordinator.buffer_manager import BufferManager
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder, TaskPhase

CONFIG = Path(__file__).parents[3] / "configs/cartpole/parallel/cartpole_dqn_config.py"
HOLDER = Holder("collector0", "life")


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class RunningRun:
    """The coordinator's book and data of a run with one collector and one learner."""

    def __init__(self, run_dir: str = "run", kind: str = "file", root: str = "") -> None:
        self.run_dir, self.data = Path(run_dir), root or str(Path(run_dir) / "data")
        os.makedirs(self.run_dir if root else self.data, exist_ok=True)
        self.kept = KeptPlanes(kind, self.data, "", None)
        self.plane = open_planes(kind, self.data, "").data("collector0")
        self.journal = Journal(str(self.run_dir / JOURNAL))
        self.ledger = TaskLedger(self.journal)
        self.buffers = BufferManager(self.journal, self.ledger, self.plane, "exp")

    def begin(self) -> "RunningRun":
        self.buffers.open("b", {"type": "advanced", "replay_buffer_size": 12})
        self.ledger.submit("collector", {"task_id": "t", "buffer_id": "b"})
        self.ledger.send("t", HOLDER)
        self.ledger.started("t", HOLDER)
        return self

    def push(self, seq: int, rows: int = 4) -> None:
        ref = self.plane.put(TransitionBatch({"x": np.full(rows, seq)}))
        self.buffers.take("t", "b", HOLDER, [{**ref, "seq": seq}])

    def learn(self, train_iter: int) -> None:
        self.journal.save_values({"coordinator": {"learner_step": train_iter}, "commander": {"envstep": 7}})
        os.makedirs("exp/ckpt", exist_ok=True)
        state = {"model": {}, "last_iter": train_iter, "last_step": 0}
        save_checkpoint("exp/ckpt/resume_l.pth.tar", state, {})

    def save(self) -> Path | None:
        return save_snapshot("exp", self.run_dir, self.kept)

    def rows(self) -> int:
        return self.buffers.status()["rows"]

    def close(self) -> None:
        self.buffers.close()
        self.journal.close()


def kept(path_data: str, token: str | None = None, path_policy: str = "") -> KeptPlanes:
    return KeptPlanes("file", path_data, path_policy, token)


def restored(run_dir: str = "again", kind: str = "file", root: str = "") -> RunningRun:
    run = RunningRun(run_dir, kind, root)
    run.journal.close()
    manifest = newest_snapshot("exp")
    assert manifest is not None
    restore_snapshot(manifest, "exp", run_dir, run.kept)
    run = RunningRun(run_dir, kind, root)
    state = run.journal.load()
    run.ledger.restore(state)
    run.buffers.restore(state)
    return run


def begun(run: RunningRun) -> RunningRun:
    run.begin()
    for seq in (1, 2, 3, 4):
        run.push(seq)
    run.learn(30)
    return run


@pytest.fixture
def run():
    one = begun(RunningRun())
    yield one
    one.close()


@pytest.mark.parametrize("kind_after", ["same", "file"])
def test_all_comes_back(planes_kind, new_root, kind_after) -> None:
    """On the backend that it was on, or on another one."""
    run = begun(RunningRun("run", planes_kind, new_root()))
    assert run.save() == Path("exp/ckpt/snapshot_30")
    run.close()
    again = restored("again") if kind_after == "file" else restored("again", planes_kind, new_root())
    # Four rows were pushed out of the buffer, and still count.
    assert (again.rows(), again.buffers.buffers["b"].count()) == (16, 12)
    state = again.journal.load()
    assert state.values["commander"] == {"envstep": 7}
    # The task waits for a worker: the one that had it is gone.
    assert again.ledger.record("t").phase is TaskPhase.QUEUED
    assert {task["task_id"] for task in again.ledger.queued("collector")} == {"t"}
    held = [chunk.ref for chunk in state.chunks]
    assert [again.plane.get(ref).columns["x"][0] for ref in held] == [2, 3, 4]
    assert read_checkpoint("exp/ckpt/resume_l.pth.tar")["last_iter"] == 30
    again.close()


def test_the_learner_of_the_snapshot_comes_back_not_a_later_one(run) -> None:
    run.save()
    run.learn(50)
    restored().close()
    assert read_checkpoint("exp/ckpt/resume_l.pth.tar")["last_iter"] == 30


def test_older_snapshots_go_and_their_chunks_with_them(run) -> None:
    for number in range(5):
        run.push(10 + number)
        run.learn(100 + number)
        run.save()
    assert {path.name for path in Path("exp/ckpt").glob("snapshot*")} == {"snapshot_103", "snapshot_104"}
    # Twelve rows each, and those of the older one are one chunk further back.
    assert len(list(Path("exp/ckpt/chunks").glob("*.chunk"))) == 4


@pytest.mark.parametrize("part", ["manifest.json", JOURNAL, "chunks.json", "ckpt--resume_l.pth.tar"])
def test_a_damaged_snapshot_is_passed_over(run, part, caplog) -> None:
    run.save()
    run.push(5)
    run.learn(40)
    folder = run.save()
    data = bytearray((folder / part).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / part).unlink()
    (folder / part).write_bytes(data)
    assert newest_snapshot("exp").folder.name == "snapshot_30"
    assert "snapshot_40 is passed over" in caplog.text


def test_a_chunk_that_is_gone_costs_its_rows_alone(run) -> None:
    run.save()
    next(iter(sorted(Path("exp/ckpt/chunks").glob("*.chunk")))).unlink()
    again = restored()
    assert (again.rows(), again.buffers.buffers["b"].count()) == (16, 8)
    again.close()


@pytest.mark.parametrize("most_bytes", [0, 8192])
def test_without_space_nothing_is_left_of_a_snapshot_and_the_next_one_is_taken(run, caplog, most_bytes) -> None:
    """No file may grow beyond a size, as on a full disk; the journal is the first, and then the largest."""
    run.save()
    taker = SnapshotTaker("exp", run.run_dir, run.kept, SnapshotClock({"run_state_freq": 10}), run.buffers.files_held)
    taker.look(30)
    run.learn(40)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        taker.look(40)
        taker.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "no snapshot is taken, the one before is whole" in caplog.text
    assert {path.name for path in Path("exp/ckpt").glob("snapshot*")} == {"snapshot_30"}
    run.learn(50)
    taker.look(50)
    taker.close()
    assert newest_snapshot("exp").notes["train_iter"] == 50


def test_one_that_nobody_asked_for_leaves_room_on_the_disk(run, monkeypatch, caplog) -> None:
    usage = namedtuple("Usage", "total used free")(10**9, 10**9, 1000)
    monkeypatch.setattr("ding.entry.snapshot_clock.shutil.disk_usage", lambda _: usage)
    assert save_snapshot("exp", run.run_dir, run.kept, asked=False) is None
    assert "no snapshot is saved: it takes" in caplog.text
    assert save_snapshot("exp", run.run_dir, run.kept) == Path("exp/ckpt/snapshot_30")


def test_chunks_stay_while_they_are_copied(planes_kind, new_root) -> None:
    run = begun(RunningRun("run", planes_kind, new_root()))
    with run.buffers.files_held():
        run.push(5)
        assert len(run.plane.chunks()) == 4
    assert len(run.plane.chunks()) == 3
    run.close()


def test_without_a_learner_there_is_none(tmp_path) -> None:
    one = RunningRun("other").begin()
    assert one.save() is None
    assert newest_snapshot("exp") is None
    one.close()


@pytest.mark.slow
def test_killed_between_any_two_writes_one_of_both_comes_back(run) -> None:
    run.save()
    run.push(5)
    run.learn(40)
    found, writes = set(), 0
    while True:
        writes += 1
        child = os.fork()
        if child == 0:
            code = 1
            try:
                die_at(writes)
                run.save()
                code = 0
            finally:
                # Neither an exception nor a signal, which a handler of Ray's turns into one: the child would run the
                # tests that follow.
                os._exit(code)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended in (0, -signal.SIGKILL)
        manifest = newest_snapshot("exp")
        found.add(manifest.notes["train_iter"])
        if writes % 5 == 0:
            again = restored(f"again{writes}")
            assert again.rows() == manifest.notes["pushed_rows"]
            again.close()
        if ended == 0:
            break
    assert found == {30, 40}


def die_at(number: int) -> None:
    seen = 0

    def hook(event: str, args: tuple) -> None:
        nonlocal seen
        writes = event in ("os.rename", "os.remove", "os.link", "os.mkdir", "shutil.copyfile")
        if writes or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def test_former_players_of_a_league_play_on_under_another_token(run) -> None:
    league = create_league({"league_type": "one_vs_one", "path_policy": "first"}, lambda *_: None)
    first, second = Seal("token of the first run"), Seal("token of the second run")

    def former_player(iteration: int) -> str:
        assert league.judge_snapshot(league.active_players_ids[0], force=True)
        name = Path(league.historical_players[-1].checkpoint_path).name
        FileWeightPlane("first", name, seal=first).publish({"w": torch.full((2,), float(iteration))}, iteration)
        league.active_players[0].total_agent_step += 10
        run.journal.save_values(
            {"coordinator": {"learner_step": iteration}, "commander": {"league": league.state_dict()}}
        )
        save_snapshot("exp", run.run_dir, kept(run.data, "token of the first run", "first"))
        return name

    names = [former_player(iteration) for iteration in (30, 40)]
    # The second one has the folder of the first, as with a path_policy of the user's, the third one of its own.
    for folder in ("first", "third"):
        Path(folder, "again").mkdir(parents=True)
        data = f"{folder}/again/data"
        planes = kept(data, "token of the second run", folder)
        restore_snapshot(newest_snapshot("exp"), "exp", f"{folder}/again", planes)
        fetched = [FileWeightPlane(folder, name, seal=second).fetch() for name in names]
        assert [(one.version, one.state["w"].tolist()) for one in fetched] == [(30, [30, 30]), (40, [40, 40])]
    # A run that goes on from the older snapshot makes players of its own.
    (Path("exp/ckpt/snapshot_40") / JOURNAL).write_bytes(b"damaged")
    restore_snapshot(newest_snapshot("exp"), "exp", "third/again", planes)
    assert [path.name for path in Path("exp/ckpt/players").iterdir()] == names[:1]


def test_env_steps_are_the_rows_that_were_pushed() -> None:
    # Also when the counters of finished tasks say less, or more.
    for finished in (0, 40, 90):
        report = {"envstep": finished, "train_iter": 0, "buffers": {"rows": 70}}
        assert with_run_figures(report, 0.0)["env_step"] == 70
    # Sequences are more than one step each.
    assert with_run_figures(report, 0.0, rows_are_steps=False)["env_step"] == 90


def test_a_folder_without_a_snapshot_is_refused() -> None:
    with pytest.raises(ConfigValueError, match="--resume: nothing holds no snapshot"):
        parallel_pipeline(CONFIG, resume="nothing")


def test_load_path_is_where_the_learner_begins() -> None:
    main, create, system = read_config_with_system(str(CONFIG))
    main.policy.learn.learner.load_path = "x.pth.tar"
    cfg = compile_config_parallel(main, create, system, save_cfg=False)
    assert cfg.main.policy.learn.learner.hook.load_ckpt_before_run == "x.pth.tar"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["flask_fs", "ray"])
def test_everything_is_killed_and_the_run_goes_on(tmp_path, backend) -> None:
    if backend == "ray":
        pytest.importorskip("ray", reason="Ray is the extra 'ray'")
    text = CONFIG.read_text().replace("stop_value=195", "stop_value=1e9")
    Path("config.py").write_text(text.replace("cartpole_dqn_parallel_seed0", "exp"))
    command = [sys.executable, "-m", "ding.entry", "-m", "parallel", "--quiet", "--backend", backend]
    first = [*command, "-c", "config.py", "--state-freq", "200"]
    with open("log.txt", "w") as log:
        process = subprocess.Popen(first, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 180
        try:
            while len(list(Path("exp/ckpt").glob("snapshot_*"))) < 2:
                assert time.monotonic() < deadline, Path("log.txt").read_text()
                assert process.poll() is None, Path("log.txt").read_text()
                time.sleep(0.2)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    notes = newest_snapshot("exp").notes
    limit = notes["train_iter"] + 300
    second = subprocess.run(
        [*command, "--resume", "exp", "--train-iter", str(limit)], capture_output=True, text=True, timeout=300
    )
    assert second.returncode == 0, second.stderr
    # From the first line on, if the run lasts long enough for one, it is not less than what the snapshot had.
    printed = second.stdout + second.stderr
    (end,) = re.findall(r"after (\d+) env steps", printed)
    assert min(map(int, [*re.findall(r"env step (\d+)", printed), end])) >= notes["pushed_rows"]
