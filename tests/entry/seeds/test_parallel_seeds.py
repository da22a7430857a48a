"""Collectors of parallel runs and of tasks play episodes of their own, and begin the same in a repeated run."""

import os
import socket
import subprocess
import sys
import threading
from copy import deepcopy
from pathlib import Path

import pytest
from easydict import EasyDict
from seed_toys import ACTIONS, episodes

from ding.config.source import parallel_config_to_source
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import parallel_pipeline
from ding.utils import SeedTree

HERE = Path(__file__).parent
RAY = {"init": {"object_store_memory": 200 * 2**20, "_node_ip_address": "127.0.0.1"}}


def configs(folder):
    """Return the three configs of a run of two collectors, which act at random."""
    main, create, system = map(
        deepcopy, (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    main.exp_name = str(folder / "run")
    main.env.update(env_id="Logged-v0", env_kwargs=dict(folder=str(folder)), collector_env_num=2, evaluator_env_num=1)
    main.env.update(stop_value=10**9, n_evaluator_episode=1)
    main.policy.model.update(obs_shape=2, action_shape=ACTIONS)
    main.policy.other.eps.update(start=1.0, end=1.0)
    main.policy.collect.collector.collector_num = 2
    create.env = EasyDict(type="gymnasium", import_names=["seed_toys"])
    create.env_manager.type = "base"
    system.ray = RAY
    return main, create, system


def collected(folder):
    """Return the episodes of each process of a run without those of evaluations, the earliest first."""
    evaluated = {SeedTree(0).derived("evaluator", index=index, purpose="evaluate") for index in range(1000)}
    found = sorted((one for one in episodes(folder) if one["seed"] not in evaluated), key=lambda one: one["time"])
    return [[one for one in found if one["pid"] == pid] for pid in sorted({one["pid"] for one in found})]


def first_episodes(folder):
    """Return which episodes the envs of each collector played first."""
    firsts = (
        [(one["seed"], one["actions"]) for one in process if one["episode"] == 0] for process in collected(folder)
    )
    return {tuple(sorted(first[:2])) for first in firsts}


def run_of_two(path, run):
    """Return the folder of a run in which both collectors played.

    A run may end before its second collector has started, however long it is: where that happens, a longer one follows.
    """
    counts = []
    for train_iter in (60, 600, 6000):
        folder = path / str(train_iter)
        folder.mkdir(parents=True)
        run(folder, train_iter)
        counts.append([len(process) for process in collected(folder)])
        if len(counts[-1]) == 2 and min(counts[-1]) >= 4:
            return folder
    raise AssertionError(f"episodes of the collectors of each run: {counts}")


def check_two_runs(tmp_path, run):
    """Run twice with one seed: collectors share no episode, and they begin with the same ones in both runs."""
    folders = [run_of_two(tmp_path / name, run) for name in ("first", "again")]
    for folder in folders:
        # Of thousands of random episodes two would be equal by chance.
        played = [{one["actions"] for one in process[:100]} for process in collected(folder)]
        assert not played[0] & played[1]
        assert all(isinstance(one["seed"], int) for process in collected(folder) for one in process)
    assert first_episodes(folders[0]) == first_episodes(folders[1])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["flask_fs", "ray"])
def test_collectors_of_a_parallel_run(tmp_path, monkeypatch, backend):
    if backend == "ray":
        pytest.importorskip("ray", reason="Ray is the extra 'ray'")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]))

    def run(folder, train_iter):
        parallel_pipeline(configs(folder), seed=0, max_train_iter=train_iter, backend=backend)

    check_two_runs(tmp_path, run)


@pytest.mark.slow
def test_collectors_of_ding_m_dist(tmp_path):
    def run(folder, train_iter):
        (folder / "config.py").write_text(parallel_config_to_source(*configs(folder)))
        port = str(free_port())
        common = [
            "-m",
            "ding.entry",
            "-m",
            "dist",
            "-c",
            "config.py",
            "-s",
            "0",
            "--quiet",
            "--token-file",
            "run.token",
        ]
        common += ["-cdh", "127.0.0.1", "-cdp", port, "-M"]
        with Processes(folder) as processes:
            coordinator = processes.start([*common, "coordinator", "--train-iter", str(train_iter)])
            processes.wait_for(folder / "run" / "access.json", coordinator)
            for number in range(2):
                processes.start([*common, "collector", "--module-name", f"collector{number}"])
            processes.start([*common, "learner"])
            assert coordinator.wait(200) == 0, processes.output()

    check_two_runs(tmp_path, run)


@pytest.mark.slow
def test_collectors_of_a_task(tmp_path):
    def run(folder, train_iter):
        words = ["-m", "ding.entry.cli_ditask", "--package", str(HERE), "--main", "task_toys.main"]
        with Processes(folder) as processes:
            nodes = processes.start([*words, "--parallel-workers", "3"])
            assert nodes.wait(200) == 0, processes.output()

    check_two_runs(tmp_path, run)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Processes:
    """Python processes in a folder, which end with the block."""

    def __init__(self, folder):
        self._folder, self._started = folder, []
        paths = [str(HERE), str(HERE.parents[2]), os.environ.get("PYTHONPATH", "")]
        own = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
        self._environment = {**os.environ, **own, "LOGGED_FOLDER": str(folder)}
        self._output = open(folder / "output.txt", "w+", encoding="utf-8")  # noqa: SIM115 - closed with the block

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.wait(60)
        self._output.close()

    def start(self, words):
        process = subprocess.Popen(
            [sys.executable, *words], cwd=self._folder, env=self._environment, stdout=self._output, stderr=self._output
        )
        self._started.append(process)
        return process

    def wait_for(self, path, process):
        tick = threading.Event()
        while not path.exists():
            assert process.poll() is None, self.output()
            tick.wait(0.05)

    def output(self):
        self._output.seek(0)
        return self._output.read()


def test_each_collector_seeds_its_envs_from_its_place_in_the_tree(tmp_path):
    parallel_pipeline(configs(tmp_path), seed=0, max_train_iter=20, backend="inproc")
    played = {one["seed"] for one in episodes(tmp_path)}
    for number in range(2):
        own = SeedTree(SeedTree(0).derived(f"collector{number}"))
        first_task = SeedTree(own.derived("collector", index=0))
        assert set(first_task.env_seeds(2, "collector")) <= played
