"""R10: what a run takes of the machine does not grow. Minutes: ``CHAOS_SOAK_MINUTES`` (30)."""

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from chaos_parts import ChaosRun

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
]

MINUTES = float(os.environ.get("CHAOS_SOAK_MINUTES", "30"))
EVERY_S = 2.0
CONFIG = {
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": 4,
    "main.env.evaluator_env_num": 2,
    "main.policy.other.commander.eval_interval": 10,
    # Full long before the warm-up is over.
    "main.policy.other.replay_buffer": {"replay_buffer_size": 20_000},
}


@pytest.fixture
def run(tmp_path):
    started = ChaosRun(tmp_path, config={**CONFIG, "system.path_data": str(tmp_path / "data")})
    yield started
    started.close()


def of_process(pid):
    """Megabytes in memory, threads, open files."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(os.listdir(f"/proc/{pid}/fd"))


def megabytes_in(folder):
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # files go while one looks
            total += path.stat().st_size
    return total / 2**20


def test_memory_threads_files_and_folder_stay_as_they_are(run, tmp_path):
    run.wait_for(lambda: run.status("train_iter") > 0, "training")
    pids = {role: process["pid"] for role, process in run.snapshot()["processes"].items()}
    pids["launcher"] = run.process.pid
    begin_s, minutes, folder = time.monotonic(), [], []
    seen = {role: [] for role in pids}
    tick = threading.Event()
    while time.monotonic() - begin_s < MINUTES * 60:
        tick.wait(EVERY_S)
        minutes.append((time.monotonic() - begin_s) / 60)
        folder.append(megabytes_in(tmp_path / "data"))
        for role, pid in pids.items():
            seen[role].append(of_process(pid))
    assert {role: process["pid"] for role, process in run.snapshot()["processes"].items()}.items() <= pids.items()

    minutes, folder = np.array(minutes), np.array(folder)
    warm = minutes > MINUTES / 3
    second = warm & (minutes < MINUTES * 2 / 3)
    found = {}
    for role, rows in seen.items():
        memory, threads, files = np.array(rows, dtype=float).T
        slope = float(np.polyfit(minutes[warm], memory[warm], 1)[0])
        # Threads and connections come and go with tasks; what leaks makes every later moment higher.
        grown = [float(np.median(one[warm & ~second]) - np.median(one[second])) for one in (threads, files)]
        found[role] = (round(slope, 3), *grown)
    # The figures of `docs/reliability.md`: pytest shows them with -rP.
    print({**found, "folder": (round(folder[second].max(), 2), round(folder[warm].max(), 2))})
    assert all(slope < 1 and max(grown) <= 1 for slope, *grown in found.values()), found
    assert folder[warm].max() < 1.5 * folder[second].max() + 1
