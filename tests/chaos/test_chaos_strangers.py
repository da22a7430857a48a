"""A run whose coordinator is attacked by those who have no token (S9)."""

import contextlib
import json
import os
import resource
import selectors
import socket
import sys
import threading
import time

import pytest
from chaos_parts import ChaosRun
from test_chaos_parallel import QUICK, is_training

pytestmark = [pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"), pytest.mark.slow]

CONNECTIONS, SECONDS = 1000, 30.0
REQUESTS = {
    "idle": b"",
    "slow": b"G",
    "refused": b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
}


class Attack:
    """Keeps many connections open, each of which sends a request again and again; closed ones are opened anew."""

    def __init__(self, port, request):
        self._address, self._request = ("127.0.0.1", port), request
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *exc_info):
        self._over.set()
        self._thread.join()

    def _run(self):
        with selectors.DefaultSelector() as selector:
            for _ in range(CONNECTIONS):
                self._open(selector)
            while not self._over.wait(0.05):
                for key, _ in selector.select(0.2):
                    with contextlib.suppress(OSError):
                        if key.fileobj.recv(4096):
                            continue
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    self._open(selector)
                for key in list(selector.get_map().values()):
                    with contextlib.suppress(OSError):
                        key.fileobj.send(self._request)
            for key in list(selector.get_map().values()):
                key.fileobj.close()

    def _open(self, selector):
        connection = socket.socket()
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection.connect(self._address)
        selector.register(connection, selectors.EVENT_READ)


@pytest.fixture
def run(tmp_path):
    """A run with as many files as a user has, against an attacker who has more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    run = ChaosRun(tmp_path, config=QUICK)
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
    run.wait_for(is_training(run, 200), "training")
    undisturbed = iterations(run, 10.0)
    port = int(json.loads((tmp_path / "parallel_test/access.json").read_text())["address"].rpartition(":")[2])
    with Attack(port, REQUESTS[kind]):
        attacked = iterations(run, SECONDS)
        coordinator = f"/proc/{run.pid('coordinator')}"
        assert len(os.listdir(f"{coordinator}/fd")) < 512
        assert len(os.listdir(f"{coordinator}/task")) < 300
    assert attacked > undisturbed / 2
    assert run.status("tasks")["requeued"] == 0
    assert {process["restarts"] for process in run.snapshot()["processes"].values()} == {0}
