"""Options of ``ditask`` from the variables of slurm and kubernetes."""

import pytest

from ding.config.errors import ConfigValueError
from ding.entry.cli_parsers import PLATFORM_PARSERS, k8s_parser, slurm_parser
from ding.entry.cli_parsers.slurm_parser import expand_hosts

SLURM = {
    "SLURM_NTASKS": "6",
    "SLURM_NTASKS_PER_NODE": "3",
    "SLURM_NODELIST": "gpu-[1,2]",
    "SLURM_PROCID": "4",
    "SLURMD_NODENAME": "gpu-2",
}


@pytest.fixture
def slurm(monkeypatch):
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("n-[1,3-5]", ["n-1", "n-3", "n-4", "n-5"]),
        ("n[008-010]x,m", ["n008x", "n009x", "n010x", "m"]),
        ("10-5-38-[190,215]", ["10-5-38-190", "10-5-38-215"]),
    ],
)
def test_lists_of_hosts(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


def test_slurm_mesh(slurm) -> None:
    found = slurm_parser(None, parallel_workers=2, topology="mesh", labels=["x"])
    assert (found["address"], found["ports"], found["node_ids"]) == ("gpu-2", [15153], [8])
    assert (found["protocol"], found["labels"], found["parallel_workers"]) == ("tcp", ["x"], 2)
    ports = [15151, 15152, 15153, 15154, 15155, 15156]
    first = [f"tcp://gpu-1:{port}" for port in ports]
    assert found["attach_to"] == [*first, "tcp://gpu-2:15151", "tcp://gpu-2:15152"]


@pytest.mark.parametrize(("topology", "dialled"), [("star", ["tcp://gpu-1:4000"]), ("alone", [])])
def test_slurm_other_topologies(slurm, topology: str, dialled: list[str]) -> None:
    assert slurm_parser(None, topology=topology, ports=[4000])["attach_to"] == dialled


def test_a_platform_spec_replaces_options_of_single_tasks(slurm) -> None:
    tasks = [{}] * 4 + [{"ports": [9000], "node_ids": 40, "attach_to": "$node.0,$node.7,tcp://z:1"}, {}]
    found = slurm_parser({"tasks": tasks}, parallel_workers=2, topology="mesh")
    assert (found["ports"], found["node_ids"]) == ([9000], 40)
    assert found["attach_to"] == ["tcp://gpu-1:15151", "tcp://gpu-2:15152", "tcp://z:1"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SLURM_PROCID", None, "SLURM_PROCID is not set"),
        ("SLURM_PROCID", "x", "whole number, got 'x'"),
        ("SLURM_PROCID", "6", "task 6 of a run of 6 tasks"),
        ("SLURMD_NODENAME", "gpu-1", "should run on gpu-2"),
        ("SLURM_NTASKS", "7", "7 tasks do not fit on 2 nodes"),
    ],
)
def test_variables_that_do_not_fit(slurm, name: str, value: "str | None", message: str) -> None:
    slurm.delenv(name) if value is None else slurm.setenv(name, value)
    with pytest.raises(ConfigValueError, match=message):
        slurm_parser(None)


def test_kubernetes(monkeypatch) -> None:
    monkeypatch.setenv("DI_NODES", "pod-0, pod-1")
    monkeypatch.setenv("DI_RANK", "1")
    found = k8s_parser(None, parallel_workers=2, topology="mesh")
    assert (found["address"], found["ports"], found["node_ids"]) == ("pod-1", [50515], [2])
    assert found["attach_to"] == ["tcp://pod-0:50515", "tcp://pod-0:50516"]
    assert set(PLATFORM_PARSERS) == {"slurm", "k8s"}
