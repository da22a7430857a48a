"""Learning from data sets: updates per second beside a single file, and memory with more rows than are needed in it.

    OMP_NUM_THREADS=1 python -m benchmarks.offline speed --rounds 7 [--compile]
    OMP_NUM_THREADS=1 python -m benchmarks.offline memory --rows 10_000_000 --folder /tmp/rows

``speed``: TD3+BC at batch 256 with two hidden layers of 256 units on 100,000 rows; updates per second of CPU time,
medians over rounds in which this library (its data path and learner) and the single file (`peers/corl_td3_bc.py`) take
turns.
``memory``: writes the rows in files of a million, trains on the folder, and prints the resident memory of the process,
anonymous (its own) and of mapped files (cache that the system takes back when it needs it).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

OBS, ACTION, BATCH = 17, 6, 256
_PER_FILE = 1_000_000


def rows(count: int, seed: int) -> dict[str, np.ndarray]:
    """Random transitions with the sizes of HalfCheetah."""
    rng = np.random.default_rng(seed)
    return {
        "obs": rng.standard_normal((count, OBS), np.float32),
        "next_obs": rng.standard_normal((count, OBS), np.float32),
        "action": rng.uniform(-1, 1, (count, ACTION)).astype(np.float32),
        "reward": rng.standard_normal((count, 1), np.float32),
        "done": rng.random(count) < 0.001,
    }


def ours(path: str, folder: str, ends: ExitStack, compiled: bool = False) -> Callable[[int], None]:
    """A function that makes so many updates, as `serial_pipeline_offline` does between evaluations."""
    from easydict import EasyDict

    from ding.data import create_dataset
    from ding.entry.serial.arguments import RunArguments
    from ding.entry.serial.offline_path import OfflinePath
    from ding.entry.serial_entry import opened_run
    from ding.entry.view.views import make_view

    sizes = {"actor_head_hidden_size": 256, "critic_head_hidden_size": 256}
    main: dict[str, Any] = {
        "exp_name": str(Path(folder) / "ding"),
        "env": {"env_id": "Pendulum-v1", "act_scale": True, "evaluator_env_num": 1, "n_evaluator_episode": 1,
                "stop_value": 1e9},
        "policy": {
            "model": {"obs_shape": OBS, "action_shape": ACTION, "type": "continuous_qac", "action_space": "regression",
                      "twin_critic": True, **sizes},
            "learn": {"batch_size": BATCH, "train_epoch": 1000, "learning_rate_actor": 3e-4,
                      "learning_rate_critic": 3e-4, "compile": compiled},
            "collect": {"data_type": "columns", "data_path": path},
        },
    }  # fmt: skip
    create = {"env": {"type": "gymnasium", "import_names": ["ding.envs"]}, "env_manager": {"type": "base"},
              "policy": {"type": "td3_bc"}}  # fmt: skip
    arguments = RunArguments((EasyDict(main), EasyDict(create)), view=make_view(True))
    run = ends.enter_context(opened_run(arguments))
    dataset = create_dataset(run.cfg)
    parts = ends.enter_context(run.parts(with_buffer=False, collects=False))
    parts.learner.call_hook("before_run")
    data = OfflinePath(parts, dataset)
    data.prepare()

    def train(count: int) -> None:
        for _ in range(count):
            for batch in data.batches():
                parts.learner.train(batch, 0)

    return train


def single_file(path: str) -> Callable[[int], None]:
    """The same of the single file, with the rows in memory."""
    from benchmarks.peers.corl_td3_bc import TD3BC, Buffer
    from ding.data import create_dataset

    buffer = Buffer(
        create_dataset({"policy": {"collect": {"data_type": "columns", "data_path": path}}}).rows_at(slice(None))
    )
    algorithm = TD3BC(OBS, ACTION)

    def train(count: int) -> None:
        for _ in range(count):
            algorithm.train(buffer.sample(BATCH))

    return train


def speed(rounds: int, updates: int, compiled: bool) -> None:
    """Print updates per second of CPU time."""
    from ding.data import columns_save

    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        path = str(Path(folder) / "rows")
        columns_save(rows(100_000, 0), path)
        sides = {"ding": ours(path, folder, ends, compiled), "single file": single_file(path)}
        found: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(rounds + 1):
            for name, train in sides.items():
                start = time.process_time()
                train(updates)
                found[name].append(updates / (time.process_time() - start))
        medians = {name: statistics.median(values[1:]) for name, values in found.items()}
    for name, value in medians.items():
        print(f"{name:<12} {value:8.0f} updates per CPU second")
    print(f"ratio        {medians['ding'] / medians['single file']:8.2f}")


def resident_mb() -> dict[str, int]:
    """``RssAnon`` and ``RssFile`` of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {
        line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines if line.startswith(("RssAnon", "RssFile"))
    }


def memory(count: int, folder: str, updates: int) -> None:
    """Print the resident memory as training goes on."""
    from ding.data import columns_save

    data = Path(folder) / "data"
    for number in range(-(-count // _PER_FILE)):
        if not (data / f"{number:04}").exists():
            columns_save(rows(min(_PER_FILE, count - number * _PER_FILE), number), str(data / f"{number:04}"))
    size = sum(os.path.getsize(file) for file in data.iterdir())
    print(f"{count:,} rows, {size / 2**20:,.0f} MB on the disk; before: {resident_mb()}")
    with ExitStack() as ends:
        start = time.perf_counter()
        train = ours(str(data), folder, ends)
        print(f"opened and checked in {time.perf_counter() - start:.1f} s: {resident_mb()}")
        for _ in range(6):
            start = time.process_time()
            train(updates)
            print(f"{updates / (time.process_time() - start):6.0f} updates per CPU second: {resident_mb()}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "memory"))
    parser.add_argument("--compile", action="store_true", help="compile our updates")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", default="/tmp/offline_rows")
    options = parser.parse_args()
    if options.what == "speed":
        speed(options.rounds, options.updates, options.compile)
    else:
        memory(options.rows, options.folder, options.updates)


if __name__ == "__main__":
    main()
