"""The example of `docs/parallel.md` on two hosts: two network namespaces with a wire between them.

It needs the right to make namespaces (root, ``ip netns``); elsewhere `tests/entry/test_parallel_dist.py` runs the roles
on several loopback addresses.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from copy import deepcopy

import pytest

from ding.config.source import parallel_config_to_source
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config

A, B = "10.77.0.1", "10.77.0.2"
PORT, AGGREGATOR, MASTER = "4100", "4180", "4190"


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=20)


class TwoHosts:
    """Namespaces ``a`` and ``b``; each process has its output in ``<name>.txt``."""

    def __init__(self, folder):
        self.folder, self.processes = folder, {}
        self.names = {host: f"ding{os.getpid()}{host}" for host in "ab"}
        self.wires = {host: f"dw{os.getpid()}{host}"[:15] for host in "ab"}

    def make(self):
        a, b = self.names.values()
        wire_a, wire_b = self.wires.values()
        steps = [("netns", "add", a), ("netns", "add", b)]
        steps.append(("link", "add", wire_a, "netns", a, "type", "veth", "peer", "name", wire_b, "netns", b))
        for name, wire, address in ((a, wire_a, A), (b, wire_b, B)):
            steps += [("-n", name, "addr", "add", f"{address}/24", "dev", wire)]
            steps += [("-n", name, "link", "set", one, "up") for one in ("lo", wire)]
        for step in steps:
            done = ip(*step)
            if done.returncode:
                return done.stderr.strip() or f"ip {' '.join(step)} failed"
        return None

    def start(self, host, name, *options, **environment):
        role = ["ding.entry", "-m", "dist", "-s", "0", "-c", "config.py", "--token-file", "run.token", "--quiet"]
        return self.run(host, name, *role, *options, **environment)

    def run(self, host, name, module, *options, **environment):
        command = ["ip", "netns", "exec", self.names[host], sys.executable, "-m", module, *options]
        more = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": self.wires[host], **environment}
        with open(self.folder / f"{name}.txt", "w") as output:
            self.processes[name] = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, **more}, cwd=self.folder
            )
        return self.processes[name]

    def output(self):
        return "\n".join(f"== {name}\n{(self.folder / f'{name}.txt').read_text()}" for name in self.processes)

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        for name in self.names.values():
            pids = ip("netns", "pids", name).stdout.split()
            for pid in pids:
                os.kill(int(pid), 9)
            ip("netns", "del", name)


@pytest.fixture
def hosts(tmp_path):
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("needs ip and root")
    two = TwoHosts(tmp_path)
    try:
        reason = two.make()
        if reason is not None:
            pytest.skip(f"no network namespaces here: {reason}")
        yield two
    finally:
        two.close()


def write_config(folder, learner_gpu_num, **more):
    main, system = deepcopy(parallel_test_main_config), deepcopy(parallel_test_system_config)
    main.env.stop_value = 20
    system.update(learner_gpu_num=learner_gpu_num, **more)
    (folder / "config.py").write_text(parallel_config_to_source(main, parallel_test_create_config, system))


def wait_for(condition, two, what, timeout_s=60.0):
    tick, deadline_s = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"no {what}\n{two.output()}"
        tick.wait(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2], ids=["one learner process", "a rank on each host"])
def test_two_hosts(hosts, tmp_path, processes):
    write_config(tmp_path, processes if processes > 1 else 0)
    there = ["-cdh", A, "-cdp", PORT]
    coordinator = hosts.start("a", "coordinator", "-M", "coordinator", *there)
    wait_for((tmp_path / "run.token").exists, hosts, "token file")
    if processes == 1:
        hosts.start("a", "learner", "-M", "learner", *there, "-lh", A)
    else:
        aggregator = ["-agh", A, "-agp", AGGREGATOR]
        hosts.start("a", "aggregator", "-M", "learner_aggregator", *there, *aggregator)
        for rank, (host, address) in enumerate((("a", A), ("b", B))):
            environment = {"MASTER_ADDR": A, "MASTER_PORT": MASTER, "LOCAL_WORLD_SIZE": "1", "START_RANK": str(rank)}
            hosts.start(host, f"rank{rank}", "-M", "spawn_learner", *aggregator, "-lh", address, **environment)
    for number in range(2):
        options = ["-M", "collector", "--module-name", f"collector{number}", *there, "-clh", B]
        hosts.start("b", f"collector{number}", *options)
    try:
        coordinator.wait(600)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(hosts.output()) from error
    assert coordinator.returncode == 0, hosts.output()
    others = [process for process in hosts.processes.values() if process is not coordinator]
    for process in others:
        process.terminate()
    assert [process.wait(120) for process in others] == [143] * len(others), hosts.output()
    # What they had started ends with them.
    wait_for(lambda: not any(ip("netns", "pids", name).stdout for name in hosts.names.values()), hosts, "last end")
    result = json.loads((tmp_path / "parallel_test" / "result.json").read_text())
    assert result["solved"]
    assert result["duplicates"] == 0
    assert sorted(os.listdir(tmp_path / "parallel_test")) == [
        "ckpt",
        "log",
        "result.json",
        "status.json",
        "total_config.py",
    ]


@pytest.mark.slow
def test_two_hosts_in_one_cluster_of_ray(hosts, tmp_path):
    pytest.importorskip("ray", reason="Ray is the extra 'ray'")
    write_config(tmp_path, 0, ray={"collector": {"resources": {"b": 0.5}}})
    # Everybody who is in these namespaces belongs to this test; as `ray start` does it where there is no token.
    open_cluster = {"RAY_AUTH_MODE": "disabled"}
    begin = ("ray.scripts.scripts", "start", "--num-cpus=3", f"--object-store-memory={200 * 2**20}")
    head = ["--head", "--port=6379", "--include-dashboard=false", "--disable-usage-stats"]
    for host, own, where in (("a", A, head), ("b", B, [f"--address={A}:6379"])):
        options = [*where, f"--node-ip-address={own}", "--resources", json.dumps({host: 1})]
        started = hosts.run(host, f"ray_{host}", *begin, *options, **open_cluster)
        assert started.wait(120) == 0, hosts.output()
    words = ["-m", "parallel", "-c", "config.py", "-s", "0", "--backend", "ray", "--address", f"{A}:6379", "--quiet"]
    driver = hosts.run("a", "driver", "ding.entry", *words, **open_cluster)
    collectors = [tmp_path / "parallel_test" / "log" / f"collector{number}_process.txt" for number in range(2)]
    wait_for(lambda: all(log.exists() for log in collectors), hosts, "collectors", 120.0)
    pids = ip("netns", "pids", hosts.names["b"]).stdout.split()
    for log in collectors:
        first_line = log.read_text().partition("process ")[2]
        assert first_line.partition(",")[0] in pids
    try:
        driver.wait(300)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(hosts.output()) from error
    assert driver.returncode == 0, hosts.output()
    result = json.loads((tmp_path / "parallel_test" / "result.json").read_text())
    assert result["solved"]
    assert result["duplicates"] == 0
