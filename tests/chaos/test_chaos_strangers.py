"""A run whose coordinator is attacked by those who have no token (S9)."""

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time

import pytest
from chaos_parts import HERE, ChaosRun
from test_chaos_parallel import QUICK, is_training

pytestmark = [pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"), pytest.mark.slow]

CONNECTIONS, TURNS, SECONDS = 1000, 3, 12.0
REQUESTS = {
    "idle": b"",
    "slow": b"G",
    "refused": b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
}


@contextlib.contextmanager
def attack(port, request):
    """Strangers while the block lasts, in a session of their own: their processor is not that of the run."""
    command = [sys.executable, str(HERE / "chaos_strangers.py"), str(port), str(CONNECTIONS), repr(request)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as strangers:
        try:
            assert strangers.stdout.readline() == "open\n"
            yield
            assert strangers.poll() is None
        finally:
            strangers.kill()


@pytest.fixture
def run(tmp_path):
    """A run with as many files as a user has, against an attacker who has more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    run = ChaosRun(tmp_path, is_forked=False, config=QUICK)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    yield run
    run.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def iterations(run, seconds):
    begun_s, before = time.monotonic(), run.status("train_iter")
    threading.Event().wait(seconds)
    return (run.status("train_iter") - before) / (time.monotonic() - begun_s)


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_thousand_connections_without_a_token_do_not_hold_up_a_run(run, tmp_path, kind):
    """S9: in turns with times without them, because other work on this machine changes, too."""
    run.wait_for(is_training(run, 200), "training")
    port = int(json.loads((tmp_path / "parallel_test/access.json").read_text())["address"].rpartition(":")[2])
    coordinator = f"/proc/{run.pid('coordinator')}"
    undisturbed, attacked = [], []
    for _ in range(TURNS):
        undisturbed.append(iterations(run, SECONDS))
        with attack(port, REQUESTS[kind]):
            attacked.append(iterations(run, SECONDS))
            assert len(os.listdir(f"{coordinator}/fd")) < CONNECTIONS + 512
            assert len(os.listdir(f"{coordinator}/task")) < 100
    print(f"{kind}: train iterations per second {undisturbed}, with strangers {attacked}")
    assert sum(attacked) > sum(undisturbed) / 2
    assert run.status("tasks")["requeued"] == 0
    assert {process["restarts"] for process in run.snapshot()["processes"].values()} == {0}
