"""Runs on a Ray cluster of several nodes: where the actors are, and what happens when there is no room."""

import os
import signal
import subprocess
import sys

import pytest
from chaos_parts import ChaosRun, parent_of

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
    pytest.mark.slow,
]

ENDLESS = {
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": 2,
    "main.env.evaluator_env_num": 1,
    "main.policy.other.commander.eval_interval": 3600,
    "main.policy.collect.collector.collector_num": 2,
}
STORE = {"object_store_memory": 100 * 2**20}


@pytest.fixture
def cluster():
    pytest.importorskip("ray", reason="Ray is the extra 'ray'")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False, **STORE})
    yield made
    made.shutdown()


@pytest.fixture
def start(tmp_path, cluster):
    runs = []

    def begin(**ray):
        runs.append(ChaosRun(tmp_path, "ray", config={**ENDLESS, "system.ray": {"address": cluster.address, **ray}}))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def is_on(run, role, node):
    """Whether the process of a role belongs to a node, whose raylet has made it."""
    (raylet,) = node.all_processes["raylet"]
    return parent_of(run.pid(role)) == raylet.process.pid


def test_ray_places_actors_by_the_config_and_one_without_room_waits(start, cluster, tmp_path):
    gpus = cluster.add_node(num_cpus=2, num_gpus=1, resources={"fast": 1}, **STORE)
    plain = cluster.add_node(num_cpus=8, **STORE)
    run = start(learner={"num_gpus": 0.5, "resources": {"fast": 0.5}}, collector={"num_gpus": 0.25, "num_cpus": 0.5})
    run.wait_for(lambda: run.status("train_iter") > 0, "training")
    assert all(is_on(run, role, gpus) for role in ("learner0", "collector0", "collector1"))
    # The journal lies where the run was started.
    assert is_on(run, "coordinator", cluster.head_node)
    # The GPU is shared out; cores without one are of no use to a collector.
    (exp_dir,) = (path.parent for path in tmp_path.rglob("access.json"))
    # In a process of its own: tests do not connect to this machine's own address, at which the nodes listen.
    command = [sys.executable, "-m", "ding.entry", "scale", str(exp_dir), "--collectors", "3"]
    subprocess.run(command, check=True, timeout=120)
    run.wait_for(lambda: "collector2" in run.snapshot()["processes"], "third collector")
    before = run.status("train_iter")
    run.wait_for(lambda: run.status("train_iter") >= before + 50, "training without it")
    assert run.pid("collector2") is None
    more = cluster.add_node(num_cpus=1, num_gpus=1, **STORE)
    run.wait_for(lambda: run.pid("collector2"), "room for the third collector")
    assert is_on(run, "collector2", more)
    assert not any(is_on(run, role, plain) for role in ("coordinator", "learner0", "collector0", "collector2"))
    logs = {path.name for path in (exp_dir / "log").glob("*_process.txt")}
    assert {f"{role}_process.txt" for role in ("coordinator", "learner0", "collector2")} <= logs
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.wait_end() == 128 + signal.SIGTERM, run.output
