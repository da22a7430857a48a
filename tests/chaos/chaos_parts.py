"""What the chaos tests do with a run in another process."""

import atexit
import contextlib
import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: The backends on which a run is hurt. The actors of Ray take seconds to start.
BACKENDS = ["flask_fs", pytest.param("ray", marks=pytest.mark.slow)]
MARK = "DING_CHAOS_RUN"
WINNING = {
    "create.env": {"type": "winning_env", "import_names": ["chaos_envs"]},
    "main.policy.other.commander.eval_interval": 1,
}
RAY = {"init": {"object_store_memory": 200 * 2**20, "_node_ip_address": "127.0.0.1"}}


def is_gone(pid):
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    return state == "Z"


def parent_of(pid):
    """The process that made this one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


class ForkedProcess:
    """A process of the tests' warm one, as far as it is like ``subprocess.Popen``; see ``chaos_warm.py``."""

    _numbers = itertools.count()

    def __init__(self, module, args, output, environ):
        self._end = output.parent / f"exit_code_{next(self._numbers)}.txt"
        job = {"module": module, "args": args, "output": str(output), "environ": environ, "end": str(self._end)}
        warm = warm_process()
        warm.stdin.write(json.dumps(job) + "\n")
        warm.stdin.flush()
        self.pid = int(warm.stdout.readline())
        self.returncode = None

    def poll(self):
        if self.returncode is None and self._end.exists():
            self.returncode = int(self._end.read_text())
        return self.returncode

    def wait(self):
        tick = threading.Event()
        while self.poll() is None:
            tick.wait(0.01)
        return self.returncode

    def send_signal(self, signum):
        if self.poll() is None:
            os.kill(self.pid, signum)


@functools.cache
def warm_process():
    command = [sys.executable, str(HERE / "chaos_warm.py")]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment_of_runs()},
        start_new_session=True,
    )
    # It ends with its input.
    atexit.register(process.communicate)
    return process


def environment_of_runs():
    return {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}


class ChaosRun:
    """A run in a process group of its own.

    Args:
        folder: its working directory.
        backend: ``'ray'`` starts an interpreter of its own for it.
        is_forked: whether its process is forked from one that has imported the library.
        changes: see ``chaos_main.py``.
    """

    def __init__(self, folder, backend="flask_fs", is_forked=True, **changes):
        if backend == "ray":
            pytest.importorskip("ray", reason="Ray is the extra 'ray'")
        changes["config"] = {"system.backend": backend, "system.ray": RAY, **changes.get("config", {})}
        self.folder = folder
        self.shm_before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        environ, args = {**os.environ, **environment_of_runs(), MARK: str(folder)}, [str(folder), json.dumps(changes)]
        (folder / "output.txt").touch()
        if is_forked and backend != "ray":
            self.process = ForkedProcess("chaos_main", args, folder / "output.txt", environ)
        else:
            with open(folder / "output.txt", "w") as output:
                command = [sys.executable, str(HERE / "chaos_main.py"), *args]
                self.process = subprocess.Popen(
                    command, stdout=output, stderr=output, env=environ, start_new_session=True
                )
        self.pids = set()

    @property
    def output(self):
        return (self.folder / "output.txt").read_text()

    def snapshot(self):
        """The newest snapshot; remembers every process it ever saw."""
        try:
            snapshot = json.loads((self.folder / "status.json").read_text())
        except FileNotFoundError:
            return {}
        self.pids |= {process["pid"] for process in snapshot.get("processes", {}).values() if process["pid"]}
        return snapshot

    def status(self, key, default=0):
        return (self.snapshot().get("status") or {}).get(key, default)

    def pid(self, role):
        return (self.snapshot().get("processes") or {}).get(role, {}).get("pid")

    def wait_for(self, condition, what, timeout_s=240.0):
        """Watch the run until the condition holds; it must not end before."""
        tick = threading.Event()
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            found = condition()
            if found:
                return found
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended ({self.process.returncode}) before {what}:\n{self.output}")
            tick.wait(0.05)
        raise AssertionError(f"no {what} within {timeout_s} s; {self.snapshot()}\n{self.output}")

    def wait_for_return(self, wanted, most_steps=100_000):
        """Wait until an evaluation was so good; the run must get there within ``most_steps``, and not stand still."""
        best = steps = -1
        while best < wanted:
            self.wait_for(lambda: self.status("env_step") > steps, f"step after {steps}")  # noqa: B023
            steps, best = self.status("env_step"), self.status("best_return") or 0
            assert steps <= most_steps, f"no return of {wanted} but {best} after {steps} steps; {self.snapshot()}"

    def wait_end(self, timeout_s=300.0):
        """Return the exit code."""
        tick = threading.Event()
        deadline_s = time.monotonic() + timeout_s
        while self.process.poll() is None and time.monotonic() < deadline_s:
            self.snapshot()
            tick.wait(0.05)
        if self.process.poll() is None:
            raise AssertionError(f"the run did not end within {timeout_s} s; {self.snapshot()}\n{self.output}")
        return self.process.returncode

    def kill(self, role, signum=signal.SIGKILL):
        """Send a signal to the process of a role; returns its pid."""
        pid = self.wait_for(lambda: self.pid(role), f"process of {role}")
        os.kill(pid, signum)
        return pid

    def kill_and_wait(self, role):
        """Kill a role and wait for the next process in its place."""
        pid = self.kill(role)
        self.wait_for(lambda: self.pid(role) not in (None, pid), f"new process of {role}")

    def let_win(self):
        """Have each evaluation reach the stop value, where the env is ``WINNING``."""
        (self.folder / "enough").touch()

    def result(self):
        found = list(self.folder.glob("*/result.json"))
        return json.loads(found[0].read_text()) if found else None

    def left_behind(self):
        """Whatever is still there of a run that is over."""
        tick = threading.Event()
        for _ in range(100):
            left = [pid for pid in self.pids if not is_gone(pid)]
            if not left and not self.commands():
                break
            tick.wait(0.05)
        shm = set(os.listdir("/dev/shm")) - self.shm_before if os.path.isdir("/dev/shm") else set()
        # Other runs on this machine have folders of their own.
        shm = {name for name in shm if name.startswith("ding-run-") and self._is_ours(name)}
        temporary = [str(path) for path in self.folder.rglob("*.tmp")]
        return [*left, *self.commands(), *shm, *temporary]

    def commands(self):
        """What each live process of the run is, by its pid as a text; also those of a cluster that it started."""
        found = {}
        mark = f"{MARK}={self.folder}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0") and not is_gone(int(entry.name)):
                    found[entry.name] = (entry / "cmdline").read_text()
        return found

    def _is_ours(self, name):
        return (Path("/dev/shm") / name / f"{self.process.pid}").exists()

    def close(self):
        for pid in (self.process.pid, *map(int, self.commands())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
