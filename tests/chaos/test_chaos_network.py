"""R15: a whole run in real processes, of which every message goes through a proxy that hurts it.

The short form runs always; the full one is marked slow.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from chaos_ledger import audit
from chaos_parts import HERE
from chaos_proxy import FAULTS, Proxy
from test_chaos_ledger import COLLECTORS, ENVS, EPISODES, LEDGER

from ding.entry._roles import JOURNAL
from ding.utils.system_helper import find_free_port

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kills a process group")

ROLES = ("coordinator", "learner0", "collector0", "collector1")


class ProxiedRun:
    """Four processes, and a proxy before each."""

    def __init__(self, folder, faults, **config):
        self.folder = folder
        ports = {role: find_free_port("127.0.0.1") for role in ROLES}
        self.proxies = {role: Proxy(ports[role], faults, seed) for seed, role in enumerate(ROLES)}
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
            "DING_RUN_TOKEN": "0" * 64,
        }
        self.processes = {}
        for role in ROLES:
            options = {"config": {**LEDGER, **config}, "port": ports[role], "address": self.proxies[role].address}
            if role != "coordinator":
                options["coordinator"] = self.proxies["coordinator"].address
            with open(folder / f"{role}.txt", "w") as output:
                self.processes[role] = subprocess.Popen(
                    [sys.executable, str(HERE / "chaos_role.py"), str(folder), role, json.dumps(options)],
                    stdout=output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                )

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
        tick, deadline_s = threading.Event(), time.monotonic() + timeout_s
        while self.rows() < rows or not all(self.faults()[fault] for fault in faults):
            ended = [role for role, process in self.processes.items() if process.poll() is not None]
            assert not ended, f"{ended} ended:\n{self.output()}"
            assert time.monotonic() < deadline_s, f"too little data: {self.status()}\n{self.output()}"
            tick.wait(0.1)
        return self.status()

    def faults(self):
        counts = Counter()
        for proxy in self.proxies.values():
            counts.update(proxy.counts)
        return counts

    def kill(self):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
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
        run.kill()


def check(run, tmp_path, rows, timeout_s, faults):
    status = run.wait_for(rows, faults, timeout_s)
    run.kill()
    found = audit(tmp_path / JOURNAL, tmp_path / "data", EPISODES)
    assert found.rows >= rows
    assert (found.doubled, found.holes, found.unread) == (0, 0, [])
    assert found.complete >= found.finished_steps > 0
    # A task whose worker was silent for longer than its lease begins anew, elsewhere.
    assert found.cut <= ENVS * (status["tasks"]["requeued"] + COLLECTORS + 1)
    assert status["tasks"]["failed"] == 0
    assert status["train_iter"] > 0


def test_nothing_is_lost_or_doubled_in_a_bad_network(start, tmp_path):
    check(start(FAULTS), tmp_path, 5000, 300, [fault for fault in FAULTS if fault != "half-open"])


@pytest.mark.slow
def test_a_hundred_thousand_transitions_in_a_bad_network(start, tmp_path):
    check(start(FAULTS), tmp_path, 100_000, 1500, FAULTS)
