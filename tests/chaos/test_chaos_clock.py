"""R12: the wall clock of all processes of a run jumps by an hour, there and back."""

import shutil
import struct
import subprocess
import sys
import time

import pytest
from chaos_parts import HERE, ChaosRun

COMPILER = shutil.which("cc")
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="preloads a library"),
    pytest.mark.skipif(COMPILER is None, reason="compiles a library"),
]

CONFIG = {
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": 4,
    "main.env.evaluator_env_num": 2,
    "main.policy.other.commander.eval_interval": 3,
}
HOUR_S = 3600.0


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """A function that moves the wall clock of the processes that are started from now on."""
    library, offset = tmp_path / "clock.so", tmp_path / "offset"
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "chaos_clock.c"), "-ldl"], check=True
    )

    def move(seconds):
        with open(offset, "r+b" if offset.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))

    move(0.0)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CHAOS_CLOCK", str(offset))
    return move


def test_no_lease_ends_when_the_wall_clock_jumps(clock, tmp_path):
    clock(-HOUR_S)
    seen = float(
        subprocess.run([sys.executable, "-c", "import time; print(time.time())"], stdout=-1, check=True).stdout
    )
    assert abs(seen + HOUR_S - time.time()) < 600
    clock(0.0)

    run = ChaosRun(tmp_path, is_forked=False, config=CONFIG)
    try:
        run.wait_for(lambda: run.status("train_iter") > 0, "training")
        processes = {role: process["pid"] for role, process in run.snapshot()["processes"].items()}
        for seconds in (HOUR_S, -HOUR_S, 0.0):
            clock(seconds)
            begun, rows = run.status("train_iter"), run.status("buffers")["rows"]
            evaluated = run.status("tasks")["done"]
            run.wait_for(lambda: run.status("train_iter") > begun + 200, "training")  # noqa: B023
            run.wait_for(lambda: run.status("buffers")["rows"] > rows + 500, "data")  # noqa: B023
            run.wait_for(lambda: run.status("tasks")["done"] > evaluated + 1, "tasks that end")  # noqa: B023
        tasks = run.status("tasks")
        assert (tasks["leases_expired"], tasks["requeued"], tasks["expired"]) == (0, 0, 0)
        assert {role: process["pid"] for role, process in run.snapshot()["processes"].items()} == processes
    finally:
        run.close()
