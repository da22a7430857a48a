"""Parallel runs in real processes that are killed, stopped, terminated and broken (R1-R3, R6-R9, R16).

The short forms run always; the full ones are marked slow.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from chaos_parts import BACKENDS, WINNING, ChaosRun, is_gone, parent_of

from ding.entry.view import read_status
from ding.utils.file_helper import remove_torn_files

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

QUICK = {
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": 4,
    "main.env.evaluator_env_num": 2,
    "main.policy.other.commander.eval_interval": 3600,
    "main.policy.collect.collector.collector_num": 2,
}


@pytest.fixture
def start(tmp_path):
    runs = []

    def begin(**changes):
        changes["config"] = {**QUICK, **changes.get("config", {})}
        runs.append(ChaosRun(tmp_path, **changes))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def is_training(run, more=1):
    begun = run.status("train_iter")
    return lambda: run.status("train_iter") >= begun + more


def gets_data(run):
    before = run.status("buffers", {}).get("rows", 0)
    return lambda: run.status("buffers", {}).get("rows", 0) != before


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_role_may_be_killed_and_the_run_goes_on_to_its_end(start, backend):
    """R1, R2, R3 in short."""
    run = start(backend=backend, config=WINNING)
    run.wait_for(is_training(run), "training")
    for role in ("collector0", "learner0", "coordinator"):
        run.kill_and_wait(role)
        run.wait_for(gets_data(run), f"data after {role} was killed")
        run.wait_for(is_training(run), f"training after {role} was killed")
    run.kill_and_wait("collector1")
    run.wait_for(is_training(run), "training after collector1 was killed")
    run.let_win()
    assert run.wait_end() == 0, run.output
    result = run.result()
    assert result["solved"]
    assert result["tasks"]["failed"] == 0
    assert run.left_behind() == []


@pytest.mark.slow
def test_a_run_goes_on_without_the_frames_of_a_store_that_was_killed(start):
    run = start(backend="ray")
    run.wait_for(is_training(run), "training")
    (store,) = (pid for pid, command in run.commands().items() if command.startswith("ray::FrameStore"))
    os.kill(int(store), signal.SIGKILL)
    run.wait_for(gets_data(run), "data after the store was killed")
    run.wait_for(is_training(run, 200), "training after the store was killed")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("send", [os.kill, pytest.param(os.killpg, marks=pytest.mark.slow)])
def test_a_signal_to_the_launcher_leaves_a_checkpoint_and_nothing_else(start, tmp_path, signum, backend, send):
    """R8 for the run: a signal to its launcher alone, or to all processes of its terminal or service."""
    import torch

    run = start(backend=backend)
    run.wait_for(is_training(run), "training")
    status = read_status(str(tmp_path / "parallel_test"))
    assert status["train_iter"] > 0
    assert status["processes"]["learner0"]["state"] == "running"
    assert (tmp_path / "parallel_test" / "access.json").stat().st_mode & 0o777 == 0o600
    # As of a launcher that was killed while it wrote its status.
    (tmp_path / "parallel_test" / "status.json.1.0123abcd.tmp").touch()
    send(run.process.pid, signum)
    assert run.wait_end() == 128 + signum, run.output
    assert run.left_behind() == []
    if backend == "flask_fs":
        assert run.snapshot()["end"] == "stopped; go on with: ding -m parallel --resume parallel_test -s 0"
    checkpoints = list(tmp_path.glob("*/ckpt/resume_*.pth.tar"))
    assert len(checkpoints) == 1
    assert not (tmp_path / "parallel_test" / "access.json").exists()
    assert torch.load(checkpoints[0], weights_only=True)["last_iter"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_processes_of_a_killed_launcher_end(start, tmp_path, backend):
    """R9."""
    run = start(backend=backend)
    run.wait_for(is_training(run), "training")
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    # What it was writing at that moment stays, until a run that goes on in this folder has ended.
    remove_torn_files(tmp_path / "parallel_test")
    assert run.left_behind() == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_sigterm_to_a_role_ends_it_in_order_and_another_takes_its_place(start, backend):
    """R8 for each role."""
    run = start(backend=backend)
    run.wait_for(is_training(run), "training")
    for role in ("learner0", "collector0", "coordinator"):
        pid = run.kill(role, signal.SIGTERM)
        run.wait_for(lambda: run.pid(role) not in (None, pid), f"new process of {role}")  # noqa: B023
        assert run.snapshot()["processes"][role]["last_end"] == "ended with exit code 0"
        run.wait_for(is_training(run), f"training after {role} was terminated")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", ["raise", pytest.param("exit", marks=pytest.mark.slow)])
def test_an_exception_in_an_env_stops_the_run_with_its_traceback(start, how, backend):
    """R7 where the process lives on."""
    run = start(backend=backend, config=_chaos_env(how))
    assert run.wait_end() == 1
    assert "chaos_envs.py" in run.output
    assert ("ArithmeticError: the chaos env is broken" if how == "raise" else "SystemExit: 3") in run.output
    assert run.left_behind() == []


@pytest.mark.parametrize(
    ("mode", "how", "error"),
    [
        ("learn", "raise", "ArithmeticError: the chaos policy is broken"),
        pytest.param("collect", "raise", "ArithmeticError: the chaos policy is broken", marks=pytest.mark.slow),
        pytest.param("collect", "memory", "MemoryError: the chaos policy has no memory left", marks=pytest.mark.slow),
    ],
)
def test_an_exception_in_a_policy_stops_the_run_with_its_traceback(start, mode, how, error):
    """R7 in the learner, and in the policy of a collector."""
    policy = {"type": "broken_dqn_command", "import_names": ["chaos_learner"]}
    changes = {"create.policy": policy, "main.policy.broken_mode": mode, "main.policy.broken_how": how}
    run = start(config=changes)
    assert run.wait_end() == 1
    assert "chaos_learner.py" in run.output
    assert error in run.output
    assert run.left_behind() == []


@pytest.mark.parametrize("how", [pytest.param("abort", marks=pytest.mark.slow), "segfault"])
def test_a_crash_in_an_env_stops_the_run_and_names_the_signal(start, how):
    """R7 where the process dies."""
    run = start(config=_chaos_env(how))
    assert run.wait_end() == 1
    assert {"abort": "SIGABRT", "segfault": "SIGSEGV"}[how] in run.output
    assert run.left_behind() == []


@pytest.fixture
def busy():
    """Eight processes that compute beside the run (R28)."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    yield
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [1.0, 4.0, 8.0])
def test_a_signal_during_the_start_ends_a_run_soon_on_a_busy_machine(start, busy, after_s):
    """Of the five seconds, the last is for the interpreter of the launcher itself."""
    run = start()
    threading.Event().wait(after_s)
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.wait_end(5.0) in (143, -signal.SIGTERM), run.output
    assert run.left_behind() == []


@pytest.mark.slow
def test_the_fork_server_and_its_helper_are_killed_five_times(start):
    """R21: each time all roles end with it, and others take their places."""
    run = start()
    run.wait_for(is_training(run), "training")
    for _ in range(5):
        before = run.wait_for(lambda: pids_of(run), "process of each role")
        for helper in helpers_of(run):
            os.kill(helper, signal.SIGKILL)
        for role, pid in before.items():
            run.wait_for(lambda: run.pid(role) not in (None, pid) and is_gone(pid), f"successor of {role}")  # noqa: B023
        run.wait_for(gets_data(run), "data")
        run.wait_for(is_training(run), "training")
    assert run.status("tasks")["failed"] == 0
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.wait_end() == 143, run.output
    assert run.left_behind() == []


def pids_of(run):
    """The process of each role, or None when one of them has none."""
    found = {role: process["pid"] for role, process in run.snapshot()["processes"].items()}
    return found if all(found.values()) else None


def helpers_of(run):
    """The fork server, and the process that cleans up after all of them."""
    children = [
        int(path.name) for path in Path("/proc").glob("[0-9]*") if parent_of_or_none(path.name) == run.process.pid
    ]
    assert parent_of(run.pid("coordinator")) in children
    return children


def parent_of_or_none(pid):
    try:
        return parent_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_a_port_that_is_taken_is_named(start):
    """R16."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = start(config={"system.coordinator": {"port": port}})
        assert run.wait_end() == 1
    assert f"port {port}" in run.output
    assert "system_config.coordinator" in run.output
    assert run.left_behind() == []


def test_a_stopped_collector_loses_its_task_and_comes_back(start):
    """R6 in short: the lease is two seconds here."""
    run = start(config={"system.coordinator": {"lease_s": 2.0}})
    run.wait_for(is_training(run), "training")
    pid = run.kill("collector0", signal.SIGSTOP)
    run.wait_for(lambda: run.status("tasks", {}).get("requeued", 0) >= 1, "a task that went back to the queue")
    os.kill(pid, signal.SIGCONT)
    run.wait_for(lambda: "collector0" in run.status("workers", {}), "return of the collector")
    assert run.pid("collector0") == pid
    run.wait_for(is_training(run), "training")


@pytest.mark.slow
def test_a_collector_that_is_stopped_for_thirty_seconds(start):
    """R6, with the lease that a user has: the other collector goes on, and what the stopped one says late is void."""
    run = start()
    run.wait_for(is_training(run), "training")
    run.wait_for(gets_data(run), "data")
    pid = run.kill("collector0", signal.SIGSTOP)
    try:
        threading.Event().wait(30.0)
        assert run.status("tasks")["requeued"] >= 1
        assert "collector0" not in run.status("workers")
        run.wait_for(gets_data(run), "data of the other collector")
    finally:
        os.kill(pid, signal.SIGCONT)
    run.wait_for(lambda: "collector0" in run.status("workers"), "return of the collector")
    # When the collector goes on, its result and its heartbeat are both due. If the result is first, the coordinator
    # rejects it; if the heartbeat is, the collector learns that its connection is over, and drops the result itself.
    run.wait_for(
        lambda: run.status("messages")["results_rejected"] >= 1 or "collector0: the late result of task" in run.output,
        "a late result that is rejected, or dropped",
    )
    assert run.pid("collector0") == pid
    assert run.status("tasks")["failed"] == 0
    run.wait_for(is_training(run), "training")
    run.wait_for(gets_data(run), "data")


def _chaos_env(how):
    return {
        "create.env": {"type": "chaos_env", "import_names": ["chaos_envs"]},
        "main.env.chaos_how": how,
        "main.env.chaos_after": 5,
    }


@pytest.mark.slow
def test_twenty_kills_of_collectors(start):
    """R1: every three seconds or so, and the policy learns nevertheless."""
    chance = random.Random(0)
    pause = threading.Event()
    run = start(config={"main.policy.other.commander.eval_interval": 3})
    run.wait_for(is_training(run), "training")
    for _ in range(20):
        role = f"collector{chance.randrange(2)}"
        run.kill_and_wait(role)
        # On a busy machine, kills that come before a process can begin are those of a process that never begins.
        run.wait_for(lambda: role in run.status("workers", {}), f"return of {role}")  # noqa: B023
        pause.wait(2.5)
    run.wait_for_return(195)
    assert run.status("tasks")["failed"] == 0
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.wait_end() == 143, run.output
    assert run.left_behind() == []


@pytest.mark.slow
@pytest.mark.parametrize("role", ["learner0", "coordinator"])
def test_five_kills_of_the_one_that_there_is(start, role):
    """R2, R3."""
    run = start(limits={"max_train_iter": 20000})
    for _ in range(5):
        run.wait_for(is_training(run, 200), "training", 180)
        run.kill_and_wait(role)
    assert run.wait_end(600) == 0, run.output
    assert run.result()["train_iter"] >= 20000
    assert run.left_behind() == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_cartpole_reaches_its_stop_value(start, seed):
    run = start(seed=seed, config={"main.env.stop_value": 195, "main.policy.other.commander.eval_interval": 5})
    assert run.wait_end(600) == 0, run.output
    assert run.result()["solved"]
    assert run.left_behind() == []
