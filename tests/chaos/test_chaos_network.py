"""Runs whose roles nobody supervises, as on several machines.

R15: every message goes through a proxy that hurts it. R4: all roles are killed at one moment, and started again. The
short forms run always; the full ones are marked slow.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter

import pytest
import torch
from chaos_ledger import audit
from chaos_parts import ForkedProcess, environment_of_runs
from chaos_proxy import FAULTS, Proxy
from test_chaos_ledger import COLLECTORS, ENVS, EPISODES, LEDGER

from ding.entry.parallel.snapshots import JOURNAL
from ding.utils.system_helper import find_free_port

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kills a process group")

ROLES = ("coordinator", "learner0", "collector0", "collector1")
TOKEN = "0" * 64


class ProxiedRun:
    """Four processes, and a proxy before each."""

    def __init__(self, folder, faults, **config):
        self.folder, self.config = folder, {**LEDGER, **config}
        self.ports = {role: find_free_port("127.0.0.1") for role in ROLES}
        self.proxies = {role: Proxy(self.ports[role], faults, seed) for seed, role in enumerate(ROLES)}
        self.begin()

    def begin(self):
        """Start all roles."""
        environ = {**os.environ, **environment_of_runs(), "DING_RUN_TOKEN": TOKEN}
        self.processes = {}
        for role in ROLES:
            options = {"config": self.config, "port": self.ports[role], "address": self.proxies[role].address}
            if role != "coordinator":
                options["coordinator"] = self.proxies["coordinator"].address
            args, output = [str(self.folder), role, json.dumps(options)], self.folder / f"{role}.txt"
            self.processes[role] = ForkedProcess("chaos_role", args, output, environ)

    def status(self):
        try:
            return json.loads((self.folder / "status.json").read_text())
        except FileNotFoundError:
            return {}

    def rows(self):
        return sum(held["rows"] for held in self.status().get("buffers", {}).get("held", {}).values())

    def output(self):
        return "\n".join((self.folder / f"{role}.txt").read_text()[-3000:] for role in ROLES)

    def wait_for(self, rows, faults, timeout_s):
        """Wait until there are so many rows, and each of these faults happened."""
        self.wait_until(lambda: self.rows() >= rows, f"{rows} rows", timeout_s)
        self.wait_until(lambda: all(self.faults()[fault] for fault in faults), f"faults {faults}", timeout_s)
        return self.status()

    def wait_until(self, condition, what, timeout_s):
        tick, deadline_s = threading.Event(), time.monotonic() + timeout_s
        while not condition():
            ended = [role for role, process in self.processes.items() if process.poll() is not None]
            assert not ended, f"{ended} ended:\n{self.output()}"
            assert time.monotonic() < deadline_s, f"no {what}: {self.status()}\n{self.output()}"
            tick.wait(0.1)

    def faults(self):
        counts = Counter()
        for proxy in self.proxies.values():
            counts.update(proxy.counts)
        return counts

    def kill(self):
        """Kill all roles at one moment."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        (self.folder / "status.json").unlink(missing_ok=True)

    def close(self):
        self.kill()
        for proxy in self.proxies.values():
            proxy.close()


@pytest.fixture
def start(tmp_path):
    runs = []

    def begin(faults, **config):
        runs.append(ProxiedRun(tmp_path, faults, **config))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def check(run, tmp_path, rows, timeout_s, faults):
    run.wait_for(rows, faults, timeout_s)
    # On a machine that does other work, the data may all be there before the learner has begun.
    run.wait_until(lambda: run.status().get("train_iter", 0) > 0, "training", timeout_s)
    status = run.status()
    run.kill()
    found = audit(tmp_path / JOURNAL, tmp_path / "data", EPISODES, TOKEN)
    assert found.rows >= rows
    assert (found.doubled, found.holes, found.unread) == (0, 0, [])
    assert found.complete >= found.finished_steps > 0
    # A task whose worker was silent for longer than its lease begins anew, elsewhere.
    assert found.cut <= ENVS * (status["tasks"]["requeued"] + COLLECTORS + 1)
    assert status["tasks"]["failed"] == 0


def test_nothing_is_lost_or_doubled_in_a_bad_network(start, tmp_path):
    check(start(FAULTS), tmp_path, 2000, 300, [fault for fault in FAULTS if fault != "half-open"])


@pytest.mark.slow
def test_a_hundred_thousand_transitions_in_a_bad_network(start, tmp_path):
    check(start(FAULTS), tmp_path, 100_000, 1500, FAULTS)


@pytest.mark.slow
def test_every_message_arrives_twice_and_the_second_time_late(start, tmp_path):
    """R5b: each request of each role, up to a second later and after others that were sent meanwhile."""
    run = start({"double": 1.0})
    check(run, tmp_path, 20_000, 600, ["double"])
    print(f"{run.faults()['double']} messages, each twice")


def checkpoint_iter(folder):
    (path,) = folder.glob("*/ckpt/resume_*.pth.tar")
    return torch.load(path, weights_only=True)["last_iter"]


def kill_all_and_go_on(run, folder, kills, rows_between):
    """R4: the data, and the counters of learner and coordinator, go on from where they were."""
    iterations, steps = [], []
    for number in range(1, kills + 1):
        run.wait_for(rows_between * number, (), 300)
        run.wait_until(lambda: list(folder.glob("*/ckpt/resume_*.pth.tar")), "checkpoint", 300)
        run.kill()
        found = audit(folder / JOURNAL, folder / "data", EPISODES, TOKEN)
        assert (found.doubled, found.holes, found.unread) == (0, 0, [])
        assert found.rows >= rows_between * number
        iterations.append(checkpoint_iter(folder))
        steps.append(found.finished_steps)
        run.begin()
    status = run.wait_for(rows_between * (kills + 1), (), 300)
    run.wait_until(lambda: run.status()["train_iter"] > iterations[-1], "training", 300)
    run.kill()
    found = audit(folder / JOURNAL, folder / "data", EPISODES, TOKEN)
    assert (found.doubled, found.holes, found.unread) == (0, 0, [])
    assert [*iterations, checkpoint_iter(folder)] == sorted([*iterations, checkpoint_iter(folder)])
    assert [*steps, found.finished_steps] == sorted([*steps, found.finished_steps])
    assert found.complete >= found.finished_steps > 0
    assert found.cut <= ENVS * (COLLECTORS * (kills + 1) + status["tasks"]["requeued"])
    assert status["tasks"]["failed"] == 0


RESUMED = {"create.comm_learner.resume_ckpt_freq": 100, "system.coordinator": {"lease_s": 4.0}}


def test_a_run_of_which_everything_is_killed_goes_on(start, tmp_path):
    kill_all_and_go_on(start({}, **RESUMED), tmp_path, kills=1, rows_between=1000)


@pytest.mark.slow
def test_everything_is_killed_ten_times(start, tmp_path):
    kill_all_and_go_on(start({}, **RESUMED), tmp_path, kills=10, rows_between=5000)
