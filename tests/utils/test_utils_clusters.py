"""Slurm, Kubernetes and redis from the library: what is read from commands, environment variables and servers."""

import os
import runpy
import stat
import sys
from types import SimpleNamespace

import pytest
import torch

from ding.utils import (
    K8sLauncher,
    OrchestratorLauncher,
    exist_operator_server,
    find_free_port_slurm,
    get_operator_server_kwargs,
    node_to_host,
    node_to_partition,
    pod_exec_command,
    save_file,
)
from ding.utils.file_helper import (
    FileRefusedError,
    read_from_di_store,
    read_from_file,
    read_from_path,
    read_from_redis,
    read_from_rediscluster,
    save_file_redis,
    save_file_rediscluster,
    save_to_di_store,
)
from ding.utils.k8s_helper import K8sType
from ding.utils.slurm_helper import get_cls_info, get_ip, get_manager_node_ip


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Makes a command that notes its arguments and prints a text."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def make(name, prints="", fails=""):
        (tmp_path / f"{name}.txt").write_text(prints)
        script = tmp_path / name
        ending = f"echo '{fails}' >&2; exit 1\n" if fails else f"cat {tmp_path}/{name}.txt\n"
        script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/{name}.log\n{ending}')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return lambda: (tmp_path / f"{name}.log").read_text().splitlines()

    return make


def test_slurm(command, monkeypatch):
    command("sinfo", "gpu-10-1-2-3 long* idle\ngpu-10-1-2-4 long* mix\ngpu-10-1-2-5 short down\n")
    called = command("srun", "50123\n")
    assert node_to_host("gpu-10-1-2-3") == "10.1.2.3"
    assert node_to_partition("gpu-10-1-2-5") == "short"
    assert get_cls_info() == {"long": ["gpu-10-1-2-3", "gpu-10-1-2-4"]}
    assert find_free_port_slurm("gpu-10-1-2-3") == 50123
    assert called()[0].startswith("--ntasks=1 --partition=long --nodelist=gpu-10-1-2-3")
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-10-1-2-3")
    assert get_ip() == "10.1.2.3"
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert get_manager_node_ip() == "127.0.0.1"
    with pytest.raises(RuntimeError, match="lists no node 'x'"):
        node_to_partition("x")
    with pytest.raises(ValueError, match="does not end with an address"):
        node_to_host("gpu")
    command("sinfo", fails="no controller")
    with pytest.raises(RuntimeError, match="sinfo failed: no controller"):
        get_cls_info()


def test_the_operator_of_a_pod(monkeypatch):
    for name in ("KUBERNETES_SERVER_URL", "KUBERNETES_POD_NAME", "KUBERNETES_POD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    assert not exist_operator_server()
    with pytest.raises(AssertionError, match="must be host:port"):
        get_operator_server_kwargs({})
    monkeypatch.setenv("KUBERNETES_SERVER_URL", "http://operator:8080/")
    assert exist_operator_server()
    assert get_operator_server_kwargs({}) == {
        "api_version": "/v1alpha1",
        "namespace": "default",
        "name": "dijob-example-coordinator",
        "host": "operator",
        "port": 8080,
    }
    assert get_operator_server_kwargs({"system_addr": "other:1", "api_version": "v2"})["host"] == "other"


def test_commands_in_pods(command):
    called = command("kubectl", '{"status": {"phase": "Running"}}')
    assert pod_exec_command("cfg", "pod", "ns", "true")[0] == -1
    assert called()[1] == "--kubeconfig=cfg --namespace=ns exec pod -- /bin/sh -c true"
    command("kubectl", '{"code": 3, "message": "hi", "status": {"phase": "Running"}}')
    assert pod_exec_command("cfg", "pod", "ns", "true") == (3, "hi")
    command("kubectl", '{"status": {"phase": "Pending"}}')
    assert pod_exec_command("cfg", "pod", "ns", "true") == (-1, "the pod pod is not running, it is Pending")
    command("kubectl", fails="NotFound")
    assert pod_exec_command("cfg", "pod", "ns", "true")[0] == -1


def test_a_local_cluster(command, tmp_path):
    pytest.importorskip("yaml")
    config = tmp_path / "cluster.yaml"
    config.write_text("name: c\nagents: 2\ntype: k3s\npreload_images: [a, b]\n")
    called = command("k3d")
    cluster = K8sLauncher(str(config))
    assert (cluster.type, cluster.servers) == (K8sType.K3s, 1)
    cluster.create_cluster()
    cluster.delete_cluster()
    assert called() == [
        "cluster create c --servers=1 --agents=2",
        "image import a b --cluster=c",
        "cluster delete c",
    ]
    command("k3d", fails="cluster c already exists")
    cluster.create_cluster()
    command("k3d", fails="no docker")
    with pytest.raises(RuntimeError, match="k3d cluster create failed: no docker"):
        cluster.create_cluster()
    asked = command("kubectl")
    OrchestratorLauncher("v1.1.3").create_orchestrator()
    assert [line.split()[0] for line in asked()] == ["create", "wait", "create", "wait"]
    assert "deployment/di-orchestrator-webhook" in asked()[3]
    for text, error in (("type: k4s", ValueError), ("servers: two", TypeError), ("- a", TypeError)):
        config.write_text(text)
        with pytest.raises(error):
            K8sLauncher(str(config))


def test_files_by_path(tmp_path):
    path = str(tmp_path / "data.pth")
    save_file(path, {"x": torch.ones(2)})
    assert read_from_file(path)["x"].tolist() == read_from_path(path)["x"].tolist() == [1, 1]
    with pytest.raises(ValueError, match="s3"):
        read_from_path("s3://bucket/x")
    (tmp_path / "data.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(FileRefusedError):
        read_from_file(str(tmp_path / "data.pkl"))


def test_objects_in_di_store(monkeypatch):
    assert save_to_di_store is read_from_di_store is None
    kept = {}

    class Client:
        def __init__(self, path):
            assert path == "here.yaml"

        def put(self, data):
            kept["id"] = data
            return "id"

        get, delete = staticmethod(kept.__getitem__), staticmethod(kept.pop)

    monkeypatch.setitem(sys.modules, "di_store", SimpleNamespace(Client=Client))
    monkeypatch.setenv("DI_STORE", "on")
    monkeypatch.setenv("DI_STORE_CONFIG_PATH", "here.yaml")
    names = runpy.run_path(sys.modules["ding.utils.remote_files"].__file__)
    assert names["read_from_di_store"](names["save_to_di_store"]([1])) == [1]
    assert not kept


def test_values_in_redis(monkeypatch):
    servers = {}

    class Client(dict):
        set = dict.__setitem__

    def from_url(url):
        return servers.setdefault(url, Client())

    kinds = SimpleNamespace(from_url=from_url)
    fake = SimpleNamespace(Redis=kinds, cluster=SimpleNamespace(RedisCluster=kinds))
    monkeypatch.setitem(sys.modules, "redis", fake)
    monkeypatch.setenv("REDIS_URL", "redis://here:1/0")
    monkeypatch.delenv("REDIS_CLUSTER_URL", raising=False)
    for save, read in ((save_file_redis, read_from_redis), (save_file_rediscluster, read_from_rediscluster)):
        save("key", {"x": torch.ones(2), "n": 3})
        assert read("key")["x"].tolist() == [1, 1]
        with pytest.raises(KeyError, match="no key 'other'"):
            read("other")
    assert set(servers) == {"redis://here:1/0", "redis://127.0.0.1:7000"}
