"""Envs that fail, and what the chaos tests do with a run in another process."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from easydict import EasyDict

from ding.data import batched
from ding.envs import DingEnvWrapper
from ding.policy.command_mode_policy_instance import DQNCommandModePolicy
from ding.utils import ENV_REGISTRY, POLICY_REGISTRY

HERE = Path(__file__).parent
#: The backends on which a run is hurt. The actors of Ray take seconds to start.
BACKENDS = ["flask_fs", pytest.param("ray", marks=pytest.mark.slow)]
MARK = "DING_CHAOS_RUN"
RAY = {"init": {"object_store_memory": 200 * 2**20, "_node_ip_address": "127.0.0.1"}}


def put(config, path, value):
    """Set ``config[a][b]...`` for the path ``a.b...``."""
    *sections, key = path.split(".")
    for section in sections:
        config = config.setdefault(section, EasyDict())
    config[key] = EasyDict(value) if isinstance(value, dict) else value


@ENV_REGISTRY.register("chaos_env")
class ChaosEnv(DingEnvWrapper):
    """CartPole that, after ``chaos_after`` steps, does what ``chaos_how`` says."""

    def __init__(self, env=None, cfg=None, **kwargs):
        super().__init__(env, cfg, **kwargs)
        self._chaos_how, self._chaos_left = cfg["chaos_how"], cfg["chaos_after"]

    def step(self, action):
        self._chaos_left -= 1
        if self._chaos_left < 0:
            CHAOS[self._chaos_how]()
        return super().step(action)


def _raise():
    raise ArithmeticError("the chaos env is broken")


CHAOS = {
    "raise": _raise,
    "exit": lambda: sys.exit(3),
    "abort": os.abort,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "slow": lambda: time.sleep(0.02),
}


@POLICY_REGISTRY.register("told_dqn_command")
class ToldDQN(DQNCommandModePolicy):
    """A DQN of which each learning process writes down its parameters: file ``params/<rank>_<pid>``, a digest per line
    and train iteration.
    """

    _told = None

    @batched
    def _forward_learn(self, data):
        result = super()._forward_learn(data)
        if self._told is None:
            os.makedirs("params", exist_ok=True)
            self._told = Path(f"params/{os.environ.get('RANK', 0)}_{os.getpid()}").open("a", buffering=1)  # noqa: SIM115
        values = torch.cat([value.detach().reshape(-1) for value in self._model.state_dict().values()])
        self._told.write(hashlib.sha256(values.numpy().tobytes()).hexdigest() + "\n")
        return result


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


class ChaosRun:
    """A run in a process group of its own."""

    def __init__(self, folder, backend="flask_fs", **changes):
        if backend == "ray":
            pytest.importorskip("ray", reason="Ray is the extra 'ray'")
        changes["config"] = {"system.backend": backend, "system.ray": RAY, **changes.get("config", {})}
        self.folder = folder
        self.shm_before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        path = os.pathsep.join([str(HERE), *sys.path])
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, MARK: str(folder)}
        with open(folder / "output.txt", "w") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "chaos_main.py"), str(folder), json.dumps(changes)],
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
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
