"""The launcher with toy roles in real processes: restarts, ends, signals, orphans."""

import contextlib
import logging
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import launcher_toys as toys
import pytest

from ding.parallel.launch import Launcher, RestartRule, Role, RoleEnd, RoleFailed, RunDir, memory_root, sweep
from ding.parallel.launch.child import RolePipe
from ding.utils.credentials import WorkerName, worker_token

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


@pytest.fixture
def run_dir(tmp_path):
    folder = RunDir.create(tmp_path / "runs")
    yield folder
    folder.remove()


def launcher_of(roles, run_dir, tmp_path, **options):
    log_dir = tmp_path / "log"
    log_dir.mkdir(exist_ok=True)
    return Launcher(roles, str(run_dir.path), str(log_dir), "t" * 32, **options)


def wait_for(condition, timeout_s=100.0):
    """Poll what another process does."""
    tick = threading.Event()
    for _ in range(int(timeout_s / 0.02)):
        found = condition()
        if found:
            return found
        tick.wait(0.02)
    raise TimeoutError("it did not happen")


def is_gone(pid):
    try:
        os.kill(pid, 0)
        # A process whose new parent has not looked yet is gone, too.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def test_a_result_ends_the_run_and_stops_the_others(run_dir, tmp_path):
    roles = [
        Role("coordinator", toys.finishes, ["worker"], ends_run=True, stop_phase=0),
        Role("worker", toys.announces),
        Role("other", toys.until_stopped, str(tmp_path)),
    ]
    launcher = launcher_of(roles, run_dir, tmp_path)
    outcome = launcher.run()
    assert outcome.signum is None
    assert outcome.result["worker"]["token"] == 32
    assert is_gone(outcome.result["worker"]["pid"])
    assert [process.state for process in launcher.snapshots().values()] == ["ended"] * 3
    assert (tmp_path / "other.stopped").read_text() == "asked by the launcher"


def test_the_process_of_a_worker_gets_the_token_of_that_worker(run_dir, tmp_path):
    worker = WorkerName("learner", "learner0"), WorkerName("learner", "learner0_rank1")
    role = Role("r", toys.returns_its_token, ends_run=True, worker=worker)
    token = launcher_of([role], run_dir, tmp_path).run().result
    assert token == worker_token(worker_token("t" * 32, *worker[0]), *worker[1])


def test_a_run_is_over_when_all_roles_that_may_return_have(run_dir, tmp_path):
    roles = [Role("a", toys.returns, may_return=True), Role("b", toys.returns, "a", may_return=True)]
    launcher = launcher_of(roles, run_dir, tmp_path)
    outcome = launcher.run()
    assert (outcome.result, outcome.signum) == (None, None)
    assert [process.restarts for process in launcher.snapshots().values()] == [0, 0]


def test_the_exception_of_a_role_is_the_cause_of_the_failure(run_dir, tmp_path):
    roles = [Role("a", toys.raises, restart=RestartRule(max_failures=1)), Role("deaf", toys.deaf)]
    with pytest.raises(RoleFailed, match="broken in incarnation 0") as caught:
        launcher_of(roles, run_dir, tmp_path, fail_s=0.2).run()
    assert isinstance(caught.value.__cause__, ValueError)


def test_without_a_folder_for_logs_roles_write_where_the_launcher_does(run_dir, tmp_path):
    roles = [Role("a", toys.raises, restart=RestartRule(max_failures=1))]
    with pytest.raises(RoleFailed, match=r"a failed once[^(]*:"):
        Launcher(roles, str(run_dir.path), None, "t" * 32).run()
    assert not list(tmp_path.rglob("*_process.txt"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no fork server")
def test_a_killed_fork_server_ends_nothing_but_its_children_and_each_keeps_its_place_until_it_has_ended(
    run_dir, tmp_path
):
    rule = RestartRule(max_failures=1, delay_s=0.05)
    roles = [
        Role("killer", toys.holds_a_port, 1, rule, ends_run=True),
        Role("other", toys.until_stopped, str(tmp_path), rule),
    ]
    launcher = launcher_of(roles, run_dir, tmp_path)
    assert launcher.run().result["incarnation"] == 1
    # A kill from outside: neither role was at fault.
    assert (launcher.roles["killer"].kills, launcher.roles["killer"].failures) == (1, 0)
    assert launcher.roles["other"].failures == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no fork server")
def test_ctrl_c_and_a_term_for_the_whole_group_do_not_reach_the_fork_server(run_dir, tmp_path):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    # One that an earlier test started, for its envs, blocks nothing.
    multiprocessing.forkserver._forkserver._stop()
    roles = [Role("r", toys.reports_blocked_signals, ends_run=True)]
    blocked = launcher_of(roles, run_dir, tmp_path).run().result
    assert blocked == {"server": [signal.SIGINT, signal.SIGTERM], "own": []}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_process_that_stands_still_does_not_hold_up_the_launcher(run_dir, tmp_path):
    count = 2000
    roles = [Role("still", toys.stops_itself, count, ends_run=True), Role("talker", toys.talks, count)]
    launcher = launcher_of(roles, run_dir, tmp_path)
    resumed, over = [], threading.Event()

    def resume():
        try:
            wait_for(lambda: (launcher.announced("talker") or {}).get("number") == count - 1)
            resumed.append(True)
        finally:  # else the launcher would wait for it for ever
            # More than once, since it may stop only after the first signal.
            while not over.wait(0.05):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # not begun, or over
                    os.kill(int((run_dir.path / "still.pid").read_text()), signal.SIGCONT)

    waker = threading.Thread(target=resume, daemon=True)
    waker.start()
    try:
        assert launcher.run().result == {"newest": count - 1}
    finally:
        over.set()
    waker.join(10.0)
    assert resumed


def test_a_process_that_cannot_be_started_is_tried_again_and_then_reported(run_dir, tmp_path, monkeypatch):
    launcher = launcher_of([Role("r", toys.until_stopped, str(tmp_path), toys.QUICK)], run_dir, tmp_path)
    tries = []

    def start(peers):
        tries.append(peers)
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(launcher.roles["r"], "start", start)
    with pytest.raises(RoleFailed, match=r"r failed 3 times(.|\n)*BlockingIOError: no more processes"):
        launcher.run()
    assert len(tries) == 3


def test_a_group_lives_and_dies_together(run_dir, tmp_path, caplog):
    roles = [Role(name, toys.member, "b", toys.QUICK, ends_run=True, group="g") for name in "ab"]
    launcher = launcher_of([*roles, Role("other", toys.until_stopped, str(tmp_path))], run_dir, tmp_path)
    with caplog.at_level(logging.WARNING, "ding.entry"):
        outcome = launcher.run()
    # The member that ended the run saw the second life of the other one, not what the first one had announced.
    assert outcome.result["a"]["incarnation"] == 1
    assert {name: process.starts for name, process in launcher.roles.items()} == {"a": 2, "b": 2, "other": 1}
    assert launcher.roles["a"].kills == 0
    assert launcher.roles["b"].kills == 1
    assert "a works with b only: it is ended and started again, too" in caplog.text


def test_a_role_that_fails_three_times_in_a_row_stops_the_run_with_its_traceback(run_dir, tmp_path, caplog):
    roles = [Role("bad", toys.raises, restart=toys.QUICK), Role("good", toys.until_stopped, str(tmp_path))]
    with caplog.at_level(logging.WARNING, "ding.entry"), pytest.raises(RoleFailed) as failure:
        launcher_of(roles, run_dir, tmp_path).run()
    assert failure.value.role == "bad"
    assert failure.value.failures == 3
    assert "ValueError: broken in incarnation 2" in str(failure.value)
    assert "raises(" in failure.value.detail or "in raises" in failure.value.detail
    assert "bad: ValueError: broken in incarnation 0" in caplog.text
    assert (tmp_path / "good.stopped").exists()
    assert "Traceback" in (tmp_path / "log" / "bad_process.txt").read_text()


def test_what_another_start_would_not_help_stops_the_run_at_once(run_dir, tmp_path):
    with pytest.raises(RoleFailed, match="port 4100 is taken") as failure:
        launcher_of([Role("bad", toys.raises_for_good)], run_dir, tmp_path).run()
    assert failure.value.failures == 1


def test_a_crash_in_native_code_shows_the_end_of_the_log(run_dir, tmp_path):
    with pytest.raises(RoleFailed, match="SIGSEGV") as failure:
        launcher_of([Role("bad", toys.segfaults, restart=toys.QUICK)], run_dir, tmp_path).run()
    assert "in segfaults" in failure.value.detail


def test_kills_from_outside_are_not_failures_of_the_role(run_dir, tmp_path):
    rule = RestartRule(max_failures=1, delay_s=0.05)
    roles = [Role("killed", toys.finishes_in_the_third_process, restart=rule, ends_run=True)]
    assert launcher_of(roles, run_dir, tmp_path).run().result == {"incarnation": 2}


def test_a_role_that_does_not_stop_is_killed(run_dir, tmp_path):
    roles = [Role("end", toys.finishes, [], ends_run=True), Role("deaf", toys.deaf)]
    launcher = launcher_of(roles, run_dir, tmp_path, stop_s=0.3)
    launcher.run()
    assert launcher.snapshots()["deaf"].state == "ended"


def test_the_delay_doubles_up_to_its_bound():
    rule = RestartRule(first_delay_s=0.0, delay_s=0.5, max_delay_s=3.0)
    assert [rule.delay_after(ends) for ends in range(1, 7)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_the_end_of_a_process_in_words():
    assert RoleEnd(3).text == "ended with exit code 3"
    assert RoleEnd(-signal.SIGKILL).text == "ended by SIGKILL"
    assert RoleEnd(-200).text == "ended by signal 200"


def test_two_roles_of_one_name_are_refused(run_dir, tmp_path):
    with pytest.raises(ValueError, match="must be unique"):
        launcher_of([Role("a", toys.deaf), Role("a", toys.deaf)], run_dir, tmp_path)


class OwnLauncher:
    """`launcher_toys` as a process of its own, with three roles."""

    def __init__(self, tmp_path, *preload, target="until_stopped"):
        # A short path: sockets lie in it.
        self._short = tempfile.TemporaryDirectory()
        self.runs, self.out, self.temporary = Path(self._short.name) / "runs", tmp_path / "out", tmp_path / "tmp"
        self.out.mkdir()
        self.temporary.mkdir()
        paths = os.pathsep.join([str(Path(toys.__file__).parent), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, toys.__file__, str(self.runs), str(self.out), target, *preload],
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": paths},
        )
        self.pids = [] if preload else [int(path.read_text()) for path in wait_for(lambda: self._three())]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._short.cleanup()

    def _three(self):
        found = list(self.runs.glob("*/*.0.pid"))
        return found if len(found) == 3 and all(path.read_text() for path in found) else None

    def wait_for_all_gone(self):
        wait_for(lambda: all(is_gone(pid) for pid in self.pids))

    def wait_for_no_run_dir(self):
        wait_for(lambda: not list(self.runs.iterdir()))


@pytest.fixture
def own(tmp_path):
    launcher = OwnLauncher(tmp_path)
    yield launcher
    launcher.close()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_launcher_ends_all_in_order(own, signum):
    own.process.send_signal(signum)
    # At once, as a terminal and a shell do it: the same wish, and no kill.
    own.process.send_signal(signal.SIGTERM)
    own.process.send_signal(signal.SIGINT)
    assert own.process.wait(30) in (128 + signum, 128 + signal.SIGTERM, 128 + signal.SIGINT)
    own.wait_for_all_gone()
    own.wait_for_no_run_dir()
    assert sorted(path.name for path in own.out.glob("*.stopped")) == ["c.stopped", "w0.stopped", "w1.stopped"]


SIGNALLED = """
import atexit, gc, os, signal
from ding.parallel.launch.signals import SignalInbox
atexit.register(lambda: print(gc.get_freeze_count() > 0))
with SignalInbox():
    if {signalled}:
        os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("signalled", [True, False])
def test_a_launcher_that_got_a_signal_exits_without_a_last_search_for_garbage(signalled):
    code = SIGNALLED.format(signalled=signalled)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{signalled}\n"


def test_the_children_of_a_killed_launcher_are_gone_and_so_is_the_run_folder(own):
    own.process.kill()
    own.process.wait(30)
    own.wait_for_all_gone()
    own.wait_for_no_run_dir()
    assert len(list(own.out.glob("*.stopped"))) == 3
    assert list(own.temporary.iterdir()) == []


def test_orphans_that_never_stop_leave_no_run_folder(tmp_path):
    launcher = OwnLauncher(tmp_path, target="deaf_orphan")
    try:
        launcher.process.kill()
        launcher.process.wait(30)
        launcher.wait_for_all_gone()
        assert list(launcher.runs.iterdir()) == []
    finally:
        launcher.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_role_waits_for_the_end_of_a_launcher_that_is_in_the_middle_of_it():
    """Until a launcher that was killed has closed the pipe, its roles do not know whether it will come back."""
    ours, theirs = multiprocessing.Pipe()
    pipe = RolePipe(theirs, lambda: None)
    assert not pipe.is_orphaned(os.getpid())
    ending = subprocess.Popen([sys.executable, "-c", ""])
    # Ended, and not looked at yet: as one that still has to close some of its descriptors.
    os.waitid(os.P_PID, ending.pid, os.WEXITED | os.WNOWAIT)
    found = []
    asks = threading.Thread(target=lambda: found.append(pipe.is_orphaned(ending.pid)))
    asks.start()
    stat = Path(f"/proc/self/task/{asks.native_id}/stat")
    wait_for(lambda: found or stat.read_text().rpartition(")")[2].split()[0] == "S")
    assert not found
    ours.close()
    asks.join(30)
    assert found == [True]
    ending.wait()


def test_a_signal_while_the_fork_server_still_imports_ends_the_run(tmp_path):
    launcher = OwnLauncher(tmp_path, "launcher_slow_module")
    try:
        wait_for(lambda: list(launcher.runs.glob("*/listener-*")))
        launcher.process.send_signal(signal.SIGTERM)
        assert launcher.process.wait(30) == 128 + signal.SIGTERM
        launcher.wait_for_no_run_dir()
    finally:
        launcher.close()


def test_a_killed_role_comes_back_and_a_terminated_one_ends_in_order(own):
    os.kill(own.pids[0], signal.SIGKILL)
    wait_for(lambda: len(list(own.runs.glob("*/*.1.pid"))) == 1)
    os.kill(own.pids[1], signal.SIGTERM)
    wait_for(lambda: len(list(own.runs.glob("*/*.1.pid"))) == 2)
    assert "SIGTERM" in [path.read_text() for path in own.out.glob("*.stopped")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_role_stops_when_another_of_its_threads_hears_the_signal(run_dir, tmp_path):
    outcome = launcher_of([Role("hears", toys.hears_with_another_thread, ends_run=True)], run_dir, tmp_path).run()
    assert outcome.result == {"heard": [True]}


def test_a_run_folder_without_a_process_is_swept(tmp_path):
    used, left = RunDir.create(tmp_path), RunDir.create(tmp_path)
    joined = RunDir.join(used.path)
    used.leave(remove_if_last=True)
    assert used.path.is_dir()
    left.leave(remove_if_last=False)
    assert sweep(tmp_path) == 1
    assert not left.path.exists()
    joined.leave(remove_if_last=True)
    assert not used.path.exists()


def test_memory_is_used_where_enough_is_free(tmp_path):
    assert memory_root(1, tmp_path) == tmp_path
    assert memory_root(2**62, tmp_path) is None
    assert memory_root(1, tmp_path / "none") is None


def test_roles_join_a_run_and_leave_it(run_dir, tmp_path, caplog):
    roles = [
        Role("keeper", toys.until_stopped),
        Role("worker", toys.until_stopped, str(tmp_path)),
        Role("deaf", toys.deaf),
    ]

    def on_change(launcher):
        if launcher.announced("late") is None:
            if "late" not in launcher.roles:
                launcher.add(Role("late", toys.announces))
                with pytest.raises(ValueError, match="'late' is there"):
                    launcher.add(Role("late", toys.announces))
            return
        for name in ("worker", "deaf"):
            if name in launcher.roles:
                launcher.retire(name)
        if not {"worker", "deaf"} & launcher.roles.keys():
            seen.append(set(launcher.snapshots()))
            launcher.end()

    seen = []
    launcher = launcher_of(roles, run_dir, tmp_path, on_change=on_change, stop_s=1.0)
    with caplog.at_level(logging.WARNING, "ding.entry"):
        launcher.run()
    assert seen[0] == {"keeper", "late"}
    # One in order, which was not started again, and one that did not listen.
    assert (tmp_path / "worker.stopped").read_text() == "asked by the launcher"
    assert [record.getMessage() for record in caplog.records] == ["deaf did not end by itself; it is killed"]
