"""A run with a worker that has the token and answers rubbish, and with ghosts that enrol and do not answer (R23)."""

import json
import os
import sys

import pytest
from chaos_parts import ChaosRun
from test_chaos_parallel import QUICK, gets_data, is_training

from ding.interaction import Slave
from ding.interaction.base.guard import TokenGuard
from ding.interaction.base.http import HttpTransport

pytestmark = [pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"), pytest.mark.slow]

GHOSTS = 3000
RUBBISH = [
    [],
    "x",
    {"seq": "x"},
    {"seq": 1, "refs": [{"chunk": "ghost-1.0badc0de", "rows": 64, "seq": 1}]},
    {"seq": 1, "refs": [{"chunk": "../../etc/passwd", "rows": 10**9, "seq": 1}]},
]


class BadCollector(Slave):
    """Takes every task, and answers all questions about it with the same rubbish."""

    def __init__(self, rubbish, **options):
        super().__init__(port=0, max_tasks=2, heartbeat_span=1.0, **options)
        self.rubbish = rubbish

    def _process_task(self, task):
        if task["name"] == "resource":
            return {"gpu": 1, "cpu": 20}
        return {"message": "started"} if task["name"].endswith("start_task") else self.rubbish


@pytest.fixture
def run(tmp_path):
    # One place more than there are collectors, so that the bad one gets tasks.
    run = ChaosRun(tmp_path, config={**QUICK, "main.policy.other.commander.collector_task_space": 3})
    yield run
    run.close()


@pytest.fixture
def access(run, tmp_path):
    run.wait_for(is_training(run), "training")
    return json.loads((tmp_path / "parallel_test/access.json").read_text())


@pytest.mark.parametrize("rubbish", RUBBISH, ids=range(len(RUBBISH)))
def test_a_worker_that_answers_rubbish_gets_no_more_tasks_and_the_run_goes_on(run, access, rubbish):
    with BadCollector(rubbish, run_token=access["token"]) as bad:
        bad.enrol(access["address"], "bad", "collector")
        run.wait_for(
            lambda: (run.status("workers", {}).get("bad") or {}).get("state") == "quarantined", "quarantine", 120
        )
        run.wait_for(gets_data(run), "data")
        run.wait_for(is_training(run), "training")
    assert run.status("tasks")["failed"] == 0
    assert {process["restarts"] for process in run.snapshot()["processes"].values()} == {0}


def test_thousands_of_ghosts_cost_few_threads(run, access):
    host, port = access["address"].removeprefix("http://").split(":")
    wire = HttpTransport().open(host, int(port))
    headers = {**TokenGuard(access["token"]).headers(), "Channel": "0"}
    ghost = {"role": "collector", "address": "http://127.0.0.1:9", "incarnation": "ghost"}
    threads = []
    for number in range(GHOSTS):
        wire.send("POST", "/slave/enrol", {**ghost, "name": f"ghost{number}"}, headers, 20.0)
        threads.append(len(os.listdir(f"/proc/{run.pid('coordinator')}/task")))
    wire.close()
    assert max(threads) < 100
    run.wait_for(gets_data(run), "data")
    run.wait_for(is_training(run), "training")
    assert run.status("tasks")["failed"] == 0
