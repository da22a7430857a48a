"""No way of ending leaves a process, a descriptor or a shared-memory segment."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest

from ding.envs.env_manager import SyncSubprocessEnvManager
from ding.envs.testing import CountingEnv

LIMIT_S = 30
SHM = Path("/dev/shm")
PARENT = """
import os, signal, sys, threading
import numpy as np
from ding.envs.env_manager import SyncSubprocessEnvManager, AsyncSubprocessEnvManager
from ding.envs.testing import CountingEnv

class HangingEnv(CountingEnv):
    def step(self, action):
        os.write(1, b"stepping\\n")
        threading.Event().wait()

def launch(env=CountingEnv, cls=SyncSubprocessEnvManager, **cfg):
    manager = cls([lambda: env({"episode_length": 5})] * 3, cfg)
    manager.launch()
    print(*manager.worker_pids, flush=True)
    return manager

ACTIONS = {i: np.array([1]) for i in range(3)}
"""


def launch(num=2, **cfg):
    manager = SyncSubprocessEnvManager([lambda: CountingEnv({"episode_length": 3})] * num, cfg)
    manager.launch()
    return manager


def processes(manager):
    return [psutil.Process(pid) for pid in manager.worker_pids]


def segments():
    """Named segments and semaphores that no process outside this test's family holds: others may run beside it."""
    names = {path.name for path in SHM.glob("*") if path.name.startswith(("psm_", "sem.")) and path.is_file()}
    family = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    for maps in Path("/proc").glob("[0-9]*/maps") if names else ():
        if int(maps.parent.name) not in family:
            try:
                text = maps.read_text()
            except OSError:
                continue  # ended, or not ours to look into
            names -= {name for name in names if f"{SHM}/{name}" in text}
    return names


def assert_no_more_segments(before):
    """What a process outside the family makes has another name for a moment, and is mapped by nobody then."""
    tick, deadline_s = threading.Event(), time.monotonic() + LIMIT_S
    while more := segments() - before:
        assert time.monotonic() < deadline_s, more
        tick.wait(0.05)


def assert_gone(children):
    _, alive = psutil.wait_procs(children, timeout=LIMIT_S)
    assert alive == []


@pytest.fixture
def run_parent():
    """Start a python process with the code above and more; its first line names its workers."""
    started = []

    def run(code):
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT + textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(parent)
        pids = parent.stdout.readline().split()
        assert pids, parent.stderr.read()
        return parent, [psutil.Process(int(pid)) for pid in pids]

    yield run
    for parent in started:
        if parent.poll() is None:
            parent.kill()
        parent.communicate()


class HangingEnv(CountingEnv):
    """Says that it steps, and goes on for ever."""

    def step(self, action):
        os.write(self._core.settings.hang_fd, b"s")
        threading.Event().wait()


def launch_hanging(fd):
    def build():
        env = HangingEnv({})
        env.core.settings.hang_fd = fd
        return env

    manager = SyncSubprocessEnvManager([build] * 2, {})
    manager.launch()
    return manager


@pytest.fixture
def fork_parent():
    """Fork a process that runs a function with the write end of a pipe. Returns it and what it wrote first: pids."""
    started = []

    def run(work):
        context = multiprocessing.get_context("fork")
        read, write = context.Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside threads
            parent = context.Process(target=work, args=(write,))
            parent.start()
        write.close()
        started.append((parent, read))
        assert read.poll(LIMIT_S)
        return parent, [psutil.Process(pid) for pid in read.recv()], read

    yield run
    for parent, read in started:
        parent.kill()
        parent.join()
        parent.close()
        read.close()


def pids(*managers):
    return [pid for manager in managers for pid in manager.worker_pids]


@pytest.mark.parametrize("cfg", [{}, {"context": "spawn"}, {"envs_per_worker": 2}], ids=str)
def test_close_leaves_nothing(cfg):
    before, fds, threads = segments(), psutil.Process().num_fds(), threading.active_count()
    # A process that is spawned needs seconds to import the library.
    for _ in range(1 if "context" in cfg else 2):
        manager = launch(**cfg)
        manager.step({0: np.array([1]), 1: np.array([1])})
        children = processes(manager)
        manager.close()
        assert_gone(children)
    assert_no_more_segments(before)
    assert threading.active_count() == threads
    # The resource tracker of the start method spawn keeps one descriptor for good.
    assert psutil.Process().num_fds() <= fds + (cfg.get("context") == "spawn")


def test_restarted_workers_leave_nothing():
    fault = {"kind": "raise", "step": 1, "episode": 0}
    fns = [lambda: CountingEnv({"fault": fault})]
    fds = psutil.Process().num_fds()
    manager = SyncSubprocessEnvManager(fns, {"max_retry": 50, "retry_type": "renew"})
    manager.launch()
    inside = psutil.Process().num_fds()
    for _ in range(5):
        assert manager.step({0: np.array([1])})[0].info["abnormal"]
        manager.reset({0: None})
    assert psutil.Process().num_fds() <= inside + 2  # the memory of the actions
    manager.close()
    assert psutil.Process().num_fds() == fds


def test_a_dropped_manager_ends_its_workers():
    manager = launch()
    children = processes(manager)
    del manager
    gc.collect()
    assert_gone(children)


def two_managers(write):
    managers = [launch(), launch()]
    write.send(pids(*managers))
    signal.pause()


def test_two_managers_do_not_keep_each_other_alive(fork_parent):
    before = segments()
    parent, children, _ = fork_parent(two_managers)
    assert len(children) == 4
    parent.kill()
    assert_gone(children)
    assert_no_more_segments(before)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_kill_9_of_the_parent_ends_the_workers(context, tmp_path):
    before = segments()
    # These start methods import the main module, so it has to be a file.
    body = f"manager = launch(context={context!r}); manager.step(ACTIONS); signal.pause()"
    script = tmp_path / "parent.py"
    script.write_text(PARENT + "if __name__ == '__main__':\n    " + body, encoding="utf-8")
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(children) == 3
    parent.kill()
    parent.wait()
    assert_gone(children)
    assert_no_more_segments(before)
    parent.stdout.close()


def hang_in_main_thread(write):
    manager = launch_hanging(write.fileno())
    write.send(pids(manager))
    manager.step({0: 1, 1: 1})


def hang_in_another_thread(write):
    thread = threading.Thread(target=hang_in_main_thread, args=(write,))
    thread.start()
    thread.join()


@pytest.mark.parametrize("work", [hang_in_main_thread, hang_in_another_thread])
def test_kill_9_of_the_parent_ends_workers_that_hang(fork_parent, work):
    parent, children, read = fork_parent(work)
    for _ in children:
        assert os.read(read.fileno(), 1) == b"s"
    parent.kill()
    assert_gone(children)


def test_workers_outlive_the_thread_that_started_them():
    found = []
    thread = threading.Thread(target=lambda: found.append(launch()))
    thread.start()
    thread.join()
    manager = found[0]
    assert manager.step({0: np.array([1]), 1: np.array([1])}).obs.tolist() == [[0, 1], [0, 1]]
    children = processes(manager)
    manager.close()
    assert_gone(children)


def test_ctrl_c_reaches_the_parent_only(run_parent):
    before = segments()
    parent, children = run_parent(
        """
        import ding.envs.env_manager.subprocess_env_manager as module
        module.CLOSE_GRACE_S = 0.2
        # A process that was started in the background of a shell ignores it otherwise.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        manager = launch(HangingEnv)
        try:
            manager.step(ACTIONS)
        except KeyboardInterrupt:
            print("alive", all(os.path.exists(f"/proc/{pid}") for pid in manager.worker_pids), flush=True)
            manager.close()
            print("closed", flush=True)
            raise
        """
    )
    assert parent.stdout.readline() == "stepping\n"
    # As a terminal does: every process of the group gets it.
    for process in [*children, parent]:
        process.send_signal(signal.SIGINT)
    out, err = parent.communicate(timeout=LIMIT_S)
    assert out.replace("stepping\n", "") == "alive True\nclosed\n"
    assert err.strip().endswith("KeyboardInterrupt")
    assert_gone(children)
    assert_no_more_segments(before)


def test_an_exception_without_close_ends_the_workers(run_parent):
    parent, children = run_parent("manager = launch(); manager.step(ACTIONS); raise RuntimeError('oops')")
    _, err = parent.communicate(timeout=LIMIT_S)
    assert err.strip().endswith("RuntimeError: oops")
    assert "Exception ignored" not in err
    assert parent.returncode == 1
    assert_gone(children)


def wait_for_a_signal(write):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    manager = launch()
    write.send(pids(manager))
    signal.pause()


def test_sigterm_of_the_parent_ends_the_workers(fork_parent):
    parent, children, _ = fork_parent(wait_for_a_signal)
    parent.terminate()
    assert_gone(children)


def test_a_forked_copy_of_the_manager_does_not_end_the_workers():
    manager = launch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside threads
        pid = os.fork()
    if pid == 0:
        try:
            del manager
            gc.collect()
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert manager.step({0: np.array([1]), 1: np.array([1])}).obs.tolist() == [[0, 1], [0, 1]]
    manager.close()


def test_closing_waits_for_the_envs_to_close(tmp_path):
    class NotingEnv(CountingEnv):
        def close(self):
            (tmp_path / f"closed-{os.getpid()}").touch()

    manager = SyncSubprocessEnvManager([lambda: NotingEnv({})] * 2, {})
    manager.launch()
    children = processes(manager)
    manager.close()
    assert {f"closed-{p.pid}" for p in children} <= {path.name for path in tmp_path.iterdir()}
