"""Workers by hand that have no place in a run end, each with its reason (R22)."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from chaos_parts import HERE
from test_chaos_ledger import LEDGER

from ding.utils.system_helper import find_free_port

pytestmark = pytest.mark.slow

END_S, TOKEN = 30.0, "0" * 64


class Roles:
    """Roles of one run, each in a process that nobody supervises."""

    def __init__(self, folder):
        self.folder, self.port = folder, find_free_port("127.0.0.1")
        self.processes = []

    def start(self, role, token=TOKEN, coordinator=None):
        options = {"config": LEDGER, "port": 0, "address": None, "first_contact_s": 25.0}
        address = f"http://127.0.0.1:{self.port}"
        if role == "coordinator":
            options.update(port=self.port, address=address)
        else:
            options["coordinator"] = coordinator or address
        paths = os.pathsep.join([str(HERE), *sys.path])
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "DING_RUN_TOKEN": token}
        log = self.folder / f"{role}_{len(self.processes)}.txt"
        with open(log, "w") as output:
            process = subprocess.Popen(
                [sys.executable, str(HERE / "chaos_role.py"), str(self.folder), role, json.dumps(options)],
                stdout=output,
                stderr=output,
                env=environment,
            )
        process.log = log
        self.processes.append(process)
        return process

    def train_iter(self):
        try:
            return json.loads((self.folder / "status.json").read_text())["train_iter"]
        except FileNotFoundError:
            return 0

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def roles(tmp_path):
    roles = Roles(tmp_path)
    yield roles
    roles.close()


def wait_for(condition, timeout_s=120.0):
    tick, deadline_s = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        tick.wait(0.1)


def test_workers_without_a_place_end_and_their_names_are_free(roles):
    roles.start("coordinator")
    older, _ = roles.start("learner0"), roles.start("collector0")
    wrong = roles.start("collector1", token="1" * 64)
    lonely = roles.start("collector1", coordinator="http://127.0.0.1:9")
    wait_for(lambda: roles.train_iter() > 0)
    assert wrong.wait(END_S) == 1
    assert "The run token is not that of this run" in wrong.log.read_text()
    assert lonely.wait(END_S) == 1
    assert "no coordinator was there within 25 s" in lonely.log.read_text()
    newer = roles.start("learner0")
    assert older.wait(END_S) == 1
    assert "A newer process has this name" in older.log.read_text()
    newer.kill()
    newer.wait()
    roles.start("learner0")
    # It begins anew, or at the checkpoint of the first one; either way it trains.
    before = roles.train_iter()
    wait_for(lambda: roles.train_iter() != before)
