"""R5: every transition of a run in real processes is in the buffer once, whatever is killed.

The short form runs always; the full ones are marked slow.
"""

import contextlib
import json
import os
import random
import signal
import sys

import pytest
from chaos_ledger import audit, incarnations, journal_of, unswept
from chaos_parts import ChaosRun

from ding.config import ConfigValueError
from ding.entry.commands.scale import scale_run
from ding.parallel.launch import RunDir

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

ENVS, EPISODES, COLLECTORS = 4, 5, 2
LEDGER = {
    "create.env": {"type": "ledger_env", "import_names": ["chaos_ledger"]},
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": ENVS,
    "main.env.collector_episode_num": EPISODES,
    "main.env.evaluator_env_num": 1,
    "main.policy.other.commander.eval_interval": 3600,
    # Nothing is evicted, so that all can be counted.
    "main.policy.other.replay_buffer": {"replay_buffer_size": 4 * 10**6},
    "main.policy.collect.collector": {"collector_num": COLLECTORS, "chunk_rows": 64},
}


@pytest.fixture
def start(tmp_path):
    runs, leftovers = [], []

    def begin(backend="flask_fs", **config):
        config = {**LEDGER, "system.path_data": str(tmp_path / "data"), **config}
        runs.append(ChaosRun(tmp_path, backend, config=config))
        runs[-1].leftovers = leftovers
        return runs[-1]

    yield begin
    for run in runs:
        run.close()
    for folder in leftovers:
        folder.remove()


def held_rows(run):
    return sum(buffer["rows"] for buffer in run.status("buffers", {}).get("held", {}).values())


def stopped_dead(run, tmp_path):
    """Kill everything at one moment, and look at what is there."""
    journal = run.wait_for(lambda: journal_of(run.pid("coordinator")), "journal of the coordinator")
    # Another run on this machine would sweep a folder in which no process is left.
    run.leftovers.append(RunDir.join(journal.parent))
    # That a worker is dead is noticed after some seconds; until then it holds its task, and nothing of it is swept.
    run.wait_for(lambda: not unswept(journal, tmp_path / "data"), "end of what the dead left")
    holders = incarnations(journal)
    (access,) = tmp_path.rglob("access.json")
    token = json.loads(access.read_text())["token"]
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    # The folder of the run stays, and perhaps a file that was being written; no process does.
    assert not {str(left) for left in run.left_behind()} & {str(pid) for pid in run.pids}
    return audit(journal, tmp_path / "data", EPISODES, token), holders | incarnations(journal)


def stopped_in_order(run, tmp_path):
    """What the snapshot at the end holds is what the coordinator had taken; nobody holds anything then."""
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.wait_end() == 128 + signal.SIGTERM, run.output
    assert run.left_behind() == []
    (snapshot,) = tmp_path.glob("*/ckpt/snapshot_*")
    return audit(snapshot / "coordinator.sqlite", snapshot.parent / "chunks", EPISODES, token=None), set()


def check(found, holders, rows, collector_kills):
    assert found.rows >= rows
    assert (found.doubled, found.holes, found.unread) == (0, 0, [])
    # Only a collector that was killed, or that still played, leaves a task unfinished.
    assert found.cut <= ENVS * (collector_kills + COLLECTORS)
    assert found.complete >= found.finished_steps > 0
    # What was not acknowledged yet is of those who live; what the dead left is swept.
    assert set(found.unknown) <= holders


def test_nothing_is_lost_or_doubled_when_every_role_is_killed(start, tmp_path):
    run = start()
    for number, role in enumerate(("collector0", "coordinator", "learner0", "collector1")):
        run.wait_for(lambda: held_rows(run) >= 500 * (number + 1), "data")  # noqa: B023
        run.kill_and_wait(role)
    run.wait_for(lambda: held_rows(run) >= 3000, "data")
    check(*stopped_dead(run, tmp_path), rows=3000, collector_kills=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_thousand_transitions_and_twenty_kills(start, tmp_path, seed):
    chance, run = random.Random(seed), start()
    roles = ["collector0", "collector1", "coordinator", "learner0"] * 5
    chance.shuffle(roles)
    for number, role in enumerate(roles):
        run.wait_for(lambda: held_rows(run) >= 5000 * (number + 1), "data", 600)  # noqa: B023
        run.kill_and_wait(role)
    run.wait_for(lambda: held_rows(run) >= 105_000, "data", 600)
    check(*stopped_dead(run, tmp_path), rows=100_000, collector_kills=10)


def collectors_of(run):
    workers = run.status("workers", {})
    return {name for name, worker in workers.items() if worker["role"] == "collector"}


def scaled(exp_dir, collectors):
    with contextlib.suppress(ConfigValueError):
        return scale_run(str(exp_dir), collectors)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "ended"), [("flask_fs", stopped_dead), ("ray", stopped_in_order)])
def test_collectors_join_and_leave_and_nothing_is_lost_or_doubled(start, tmp_path, backend, ended):
    run = start(backend, **{"main.env.per_collector": [{"seed": 1}, {"seed": 2, "step_s": 0.001}]})
    run.wait_for(lambda: held_rows(run) >= 1000, "data")
    (exp_dir,) = (path.parent for path in tmp_path.rglob("access.json"))
    assert scale_run(str(exp_dir), 5) == {"before": 2, "collectors": 5}
    run.wait_for(lambda: collectors_of(run) == {f"collector{number}" for number in range(5)}, "three more collectors")
    run.wait_for(lambda: held_rows(run) >= 4000, "data of five collectors")
    # The number is the coordinator's, and outlives it.
    run.kill_and_wait("coordinator")
    assert run.wait_for(lambda: scaled(exp_dir, 1), "an answer of the new coordinator")["before"] == 5
    run.wait_for(lambda: collectors_of(run) == {"collector0"}, "one collector")
    run.wait_for(
        lambda: set(run.snapshot()["processes"]) == {"coordinator", "learner0", "collector0"}, "fewer processes"
    )
    assert "did not end by itself" not in run.output
    assert scale_run(str(exp_dir), 2)["before"] == 1
    # A name of its own.
    run.wait_for(lambda: collectors_of(run) == {"collector0", "collector5"}, "another collector")
    before = held_rows(run)
    run.wait_for(lambda: held_rows(run) >= before + 1000, "data")
    check(*ended(run, tmp_path), rows=before + 1000, collector_kills=4)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["flask_fs", "ray"])
def test_a_run_that_lost_all_collectors_waits_and_says_so(start, backend):
    run = start(backend, **{"system.coordinator": {"lease_s": 2.0, "stall_alarm_s": 1.0}})
    run.wait_for(lambda: held_rows(run) >= 500, "data")
    stopped = [run.kill(f"collector{number}", signal.SIGSTOP) for number in range(COLLECTORS)]
    alarm = run.wait_for(lambda: run.status("alarm", None), "an alarm")
    assert alarm.startswith(("no collector is connected, for ", "there is no progress, for "))
    run.wait_for(lambda: "no collector is connected" in (run.status("alarm", None) or ""), "the reason")
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    before = held_rows(run)
    run.wait_for(lambda: held_rows(run) >= before + 500 and not run.status("alarm", None), "data again")


@pytest.mark.slow
def test_a_hundred_thousand_transitions_and_twenty_eight_kills_of_actors(start, tmp_path):
    """20 kills of collectors, 5 of the learner, 3 of the coordinator on Ray; then the run ends in order."""
    chance, run = random.Random(0), start("ray")
    roles = ["collector0", "collector1"] * 10 + ["learner0"] * 5 + ["coordinator"] * 3
    chance.shuffle(roles)
    for number, role in enumerate(roles):
        run.wait_for(lambda: held_rows(run) >= 3600 * (number + 1), "data", 600)  # noqa: B023
        run.kill_and_wait(role)
    run.wait_for(lambda: held_rows(run) >= 105_000, "data", 600)
    check(*stopped_in_order(run, tmp_path), rows=100_000, collector_kills=20)


@pytest.mark.slow
def test_the_node_of_a_collector_is_lost(start, tmp_path):
    """A raylet is killed: what its collector had sent stays, and the collector comes back on another node."""
    pytest.importorskip("ray", reason="Ray is the extra 'ray'")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": 200 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        lost = cluster.add_node(**node)
        run = start("ray", **{"system.ray": {"address": cluster.address}})
        run.wait_for(lambda: held_rows(run) >= 4000, "data")
        cluster.remove_node(lost, allow_graceful=False)
        restarts = run.wait_for(
            lambda: sum(one["restarts"] for one in run.snapshot().get("processes", {}).values()), "lost process"
        )
        assert restarts > 0
        cluster.add_node(**node)
        processes = ("collector0", "collector1", "learner0", "coordinator")
        run.wait_for(lambda: all(run.pid(role) for role in processes), "processes on other nodes")
        before = held_rows(run)
        run.wait_for(lambda: held_rows(run) >= before + 4000, "data after the loss")
        found = stopped_in_order(run, tmp_path)
    finally:
        cluster.shutdown()
    check(*found, rows=8000, collector_kills=2)
