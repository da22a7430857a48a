"""Options of ``ditask`` from the variables of slurm and kubernetes."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from ding.config.errors import ConfigValueError
from ding.entry.cli_ditask import cli_ditask
from ding.entry.cli_parsers import PLATFORM_PARSERS, k8s_parser, slurm_parser
from ding.entry.cli_parsers.slurm_parser import expand_hosts
from ding.framework import Parallel

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
    assert (found["address"], found["ports"], found["node_ids"]) == ("gpu-2", 15153, 8)
    assert (found["protocol"], found["labels"], found["parallel_workers"]) == ("tcp", ["x"], 2)
    ports = [15151, 15152, 15153, 15154, 15155, 15156]
    first = [f"tcp://gpu-1:{port}" for port in ports]
    assert found["attach_to"].split(",") == [*first, "tcp://gpu-2:15151", "tcp://gpu-2:15152"]


@pytest.mark.parametrize(("topology", "dialled"), [("star", "tcp://gpu-1:4000"), ("alone", "")])
def test_slurm_other_topologies(slurm, topology: str, dialled: str) -> None:
    assert slurm_parser(None, topology=topology, ports=[4000])["attach_to"] == dialled


SPEC = {
    "tasks": [
        {"labels": "league,collect", "node_ids": 10, "ports": 6000},
        {"labels": "learn", "node_ids": 11, "attach_to": "$node.10,tcp://a:1"},
        {"labels": "evaluate", "node_ids": 30, "attach_to": "$node.10,$node.11"},
    ]
}


@pytest.mark.parametrize(
    ("rank", "links", "port"),
    [(0, "", 6000), (1, "tcp://h0:6000,tcp://a:1", 50515), (2, "tcp://h0:6000,tcp://h1:50515", 50515)],
)
def test_a_platform_spec_replaces_options_of_single_tasks(monkeypatch, rank: int, links: str, port: int) -> None:
    monkeypatch.setenv("DI_NODES", "h0,h1,h2")
    monkeypatch.setenv("DI_RANK", str(rank))
    found = k8s_parser(SPEC, topology="mesh", mq_type="nng")
    task = SPEC["tasks"][rank]
    assert found == {
        "topology": "mesh", "mq_type": "nng", "parallel_workers": 1, "protocol": "tcp", "address": f"h{rank}",
        "ports": port, "node_ids": task["node_ids"], "labels": task["labels"], "attach_to": links,
    }  # fmt: skip


def test_slurm_links_tasks_by_their_node_ids(slurm) -> None:
    values = {"NTASKS": "3", "NTASKS_PER_NODE": "1", "NODELIST": "SH-[0-1,7]", "PROCID": "2"}
    for name, value in values.items():
        slurm.setenv(f"SLURM_{name}", value)
    slurm.setenv("SLURMD_NODENAME", "SH-7")
    found = slurm_parser(SPEC)
    assert (found["attach_to"], found["ports"], found["address"]) == (
        "tcp://SH-0:6000,tcp://SH-1:15151", 15151, "SH-7"
    )  # fmt: skip
    assert (found["topology"], found["parallel_workers"]) == ("mesh", 1)


def test_a_star_of_several_processes(slurm) -> None:
    for name, value in {"NTASKS": "4", "NTASKS_PER_NODE": "2", "NODELIST": "SH-[0-1]", "PROCID": "3"}.items():
        slurm.setenv(f"SLURM_{name}", value)
    slurm.setenv("SLURMD_NODENAME", "SH-1")
    found = slurm_parser(None, parallel_workers=2, topology="star")
    assert (found["ports"], found["address"], found["node_ids"]) == (15153, "SH-1", 6)
    assert found["attach_to"] == "tcp://SH-0:15151,tcp://SH-0:15152"


@pytest.mark.parametrize(
    ("links", "message"),
    [("$node.7", r"node id of \$node\.7; they have \[0, 1\]"), ("$node.1", r"\$node\.1 is the task itself")],
)
def test_links_to_nobody(monkeypatch, links: str, message: str) -> None:
    monkeypatch.setenv("DI_NODES", "h0,h1")
    monkeypatch.setenv("DI_RANK", "1")
    with pytest.raises(ConfigValueError, match=message):
        k8s_parser({"tasks": [{}, {"attach_to": links}]})
    with pytest.raises(ConfigValueError, match="has 1 tasks, but 2 were started"):
        k8s_parser({"tasks": [{}]})


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
    assert (found["address"], found["ports"], found["node_ids"]) == ("pod-1", 50515, 2)
    assert found["attach_to"] == "tcp://pod-0:50515,tcp://pod-0:50516"
    assert set(PLATFORM_PARSERS) == {"slurm", "k8s"}


def test_the_command_line_passes_what_a_scheduler_says(monkeypatch) -> None:
    monkeypatch.setenv("DI_NODES", "127.0.0.1,127.0.0.1,127.0.0.1")
    monkeypatch.setenv("DI_RANK", "2")
    monkeypatch.setenv("DING_RUN_TOKEN", "x" * 32)
    asked: dict[str, Any] = {}

    def runner(num: int, **options: Any) -> Any:
        asked.update(options, num=num)
        return lambda function: None

    monkeypatch.setattr(Parallel, "runner", runner)
    arguments = ["--main", "json.dumps", "--platform", "k8s", "--platform-spec", json.dumps(SPEC)]
    result = CliRunner().invoke(cli_ditask, arguments)
    assert result.exit_code == 0, result.output
    assert (asked["num"], asked["ports"], asked["node_ids"], asked["labels"]) == (1, [50515], [30], ["evaluate"])
    assert asked["attach_to"] == ["tcp://127.0.0.1:6000", "tcp://127.0.0.1:50515"]
