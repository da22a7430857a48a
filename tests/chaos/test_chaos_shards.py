"""A run whose replay buffer is in shards, of which each is killed: it counts what is lost, and learns on."""

import os
import signal
import sys

import pytest
from chaos_parts import ChaosRun

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")]

CONFIG = {
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": 4,
    "main.env.evaluator_env_num": 2,
    "main.policy.other.commander.eval_interval": 3,
    "main.policy.other.replay_buffer.shards": 3,
    "main.policy.collect.collector.collector_num": 2,
}


@pytest.fixture
def start(tmp_path):
    runs = []

    def begin(backend):
        runs.append(ChaosRun(tmp_path, backend=backend, config=CONFIG))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def buffers(run):
    return run.status("buffers", {}) or {}


def by_shard(run):
    """The rows of each shard; empty while there is no buffer."""
    return next((one["shards"] for one in buffers(run).get("held", {}).values()), [])


def is_whole(run, rows=1):
    """Whether every shard is there, with so many rows at least."""
    found = by_shard(run)
    return len(found) == 3 and all(one is not None and one >= rows for one in found)


def trains_on(run):
    begun = run.status("train_iter")
    return lambda: run.status("train_iter") >= begun + 20


@pytest.mark.parametrize("backend", ["flask_fs", "ray"])
def test_a_policy_is_learned_while_shards_are_killed(start, backend):
    run = start(backend)
    run.wait_for(lambda: is_whole(run, 50), "rows in each shard")
    for kills, role in enumerate(("shard1", "shard0", "shard2", "shard1"), 1):
        run.kill_and_wait(role)
        run.wait_for(lambda: buffers(run).get("lost_shards", 0) >= kills, "the loss")  # noqa: B023
        run.wait_for(lambda: is_whole(run, 50), f"rows in {role} after it was killed")
        run.wait_for(trains_on(run), "training")
    lost = buffers(run)["lost_rows"]
    assert lost >= 4 * 50
    # A new coordinator has new shards, with all rows that its journal knows.
    run.kill_and_wait("coordinator")
    run.wait_for(lambda: is_whole(run, 100), "rows of the coordinator before")
    run.wait_for(trains_on(run), "training")
    assert buffers(run)["lost_rows"] == lost
    run.wait_for_return(195)
    status = run.snapshot()["status"]
    assert status["env_step"] == status["buffers"]["rows"]
    assert status["tasks"]["failed"] == 0
    held = sum(sum(rows for rows in one["shards"] if rows) for one in status["buffers"]["held"].values())
    assert held + lost == status["buffers"]["rows"]  # the buffer holds more rows than the run makes
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.wait_end(20) == 143, run.output
    assert "is lost with" in run.output
    assert run.left_behind() == []


def test_a_shard_that_stands_still_is_left_and_comes_back_empty(start):
    run = start("flask_fs")
    run.wait_for(lambda: is_whole(run, 50), "rows in each shard")
    pid = run.kill("shard0", signal.SIGSTOP)
    run.wait_for(lambda: buffers(run).get("lost_shards", 0) == 1, "the loss")
    run.wait_for(trains_on(run), "training without it")
    os.kill(pid, signal.SIGCONT)
    run.wait_for(lambda: is_whole(run), "its return")
    assert run.pid("shard0") == pid
    run.wait_for(trains_on(run), "training with it")
    assert buffers(run)["lost_shards"] == 1
