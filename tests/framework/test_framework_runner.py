"""``Parallel.runner`` with real processes: they find each other, end together, and outlive a kill."""

import os
import socket
from pathlib import Path

import pytest
import runner_toys as toys
from runner_notes import is_gone, notes

from ding.framework import Parallel
from ding.parallel.launch import PermanentRoleError

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals"),
    pytest.mark.usefixtures("shared_fork_server"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    ("topology", "heard"), [("mesh", {0: [1, 2], 1: [0, 2], 2: [0, 1]}), ("star", {0: [1, 2], 1: [0], 2: [0]})]
)
def test_the_first_message_of_a_process_reaches_its_neighbours(tmp_path, topology: str, heard: dict) -> None:
    Parallel.runner(3, topology=topology, labels={"cpu"})(toys.greets, str(tmp_path), 2 if topology == "mesh" else 1)
    found = notes(tmp_path, "heard")
    if topology == "mesh":
        assert {node: one["from"] for node, one in found.items()} == heard
    else:
        assert {node: set(one["from"]) <= set(heard[node]) for node, one in found.items()} == dict.fromkeys(heard, True)
    assert found[1]["labels"] == ["cpu", "distributed", "node.1"]
    assert notes(tmp_path, "ended") == {i: {"finish": True, "has_finished": True} for i in range(3)}


def test_the_first_that_finishes_ends_all_over_tcp(tmp_path) -> None:
    Parallel.runner(2, protocol="tcp", ports=[free_port(), free_port()], node_ids=[4, 7])(toys.counts, str(tmp_path), 3)
    ended = notes(tmp_path, "ended")
    assert set(ended) == {4, 7}


def test_each_middleware_sees_the_end_that_another_process_has_asked_for(tmp_path) -> None:
    Parallel.runner(2)(toys.sees_the_end, str(tmp_path))
    assert notes(tmp_path, "seen")[1] == [["first", False], ["last", True], ["first", True], ["last", True]]


@pytest.mark.parametrize("in_backward", [False, True])
def test_an_exception_names_the_middleware_and_ends_all_processes(tmp_path, in_backward: bool) -> None:
    with pytest.raises(KeyError, match="no such thing") as caught:
        Parallel.runner(3)(toys.breaks, str(tmp_path), in_backward)
    assert caught.value.__notes__[:2] == ["in the middleware 'broken_middleware'", "in node1"]
    pids = notes(tmp_path, "pid")
    assert set(pids) == {0, 1, 2}
    assert all(is_gone(pid) for pid in pids.values())


def test_a_killed_process_comes_back_and_gets_what_was_retained(tmp_path) -> None:
    Parallel.runner(3)(toys.is_killed, str(tmp_path), False)
    assert notes(tmp_path, "model") == {1: {"version": 7}}
    assert notes(tmp_path, "ended") == dict.fromkeys(range(3), True)


def test_a_learner_that_was_killed_does_not_go_on_without_its_weights(tmp_path) -> None:
    with pytest.raises(PermanentRoleError, match="node 1, the learner, was killed"):
        Parallel.runner(3)(toys.is_killed, str(tmp_path), True)


@pytest.mark.parametrize("num", [1, 2])
def test_auto_recover_begins_anew_after_an_exception(tmp_path, num: int) -> None:
    runner = Parallel.runner(num, node_ids=[1] if num == 1 else [0, 1], auto_recover=True, max_retries=2)
    runner(toys.fails_twice, str(tmp_path))
    assert notes(tmp_path, "retries")[1] == 2


@pytest.mark.parametrize("num", [1, 2])
def test_too_many_failures_are_raised(tmp_path, num: int) -> None:
    with pytest.raises(ValueError, match="retry 1"):
        Parallel.runner(num, node_ids=[1] if num == 1 else [0, 1], auto_recover=True, max_retries=1)(
            toys.fails_twice, str(tmp_path)
        )


def test_a_run_without_tasks_is_over_when_all_have_returned(tmp_path) -> None:
    Parallel.runner(2, labels=["a", "b"])(toys.returns_without_a_task, str(tmp_path))
    assert notes(tmp_path, "ended") == {0: ["a", "b"], 1: ["a", "b"]}


def test_one_process_is_this_one_and_several_runs_may_follow_each_other(tmp_path) -> None:
    seen: list[int] = []
    for _ in range(2):
        Parallel.runner(1, node_ids=[5])(lambda: seen.append(os.getpid() if Parallel().is_active else 0))
    assert seen == [os.getpid()] * 2
    assert not Parallel().is_active


def test_functions_without_a_place_are_sent_themselves(tmp_path) -> None:
    path = str(tmp_path)

    def local(what: str) -> None:
        Path(path, f"{what}.{Parallel().node_id}.json").write_text("1")

    Parallel.runner(2)(local, "called")
    assert notes(tmp_path, "called") == {0: 1, 1: 1}


def test_logs_go_to_files_where_a_folder_is_given(tmp_path) -> None:
    with pytest.raises(KeyError) as caught:
        Parallel.runner(3, log_dir=str(tmp_path / "log"))(toys.breaks, str(tmp_path), False)
    assert "broken_middleware" in "".join(caught.value.__notes__)
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == [f"node{i}_process.txt" for i in range(3)]
    assert "KeyError" in (tmp_path / "log" / "node1_process.txt").read_text()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_parallel_workers": 0}, AssertionError, "must be positive, got 0"),
        ({"n_parallel_workers": 2, "protocol": "udp"}, ValueError, "'udp'"),
        ({"n_parallel_workers": 2, "topology": "ring"}, ValueError, "'ring'"),
        ({"n_parallel_workers": 3, "protocol": "tcp", "ports": [1, 2]}, AssertionError, "2 values for 3 nodes"),
        ({"n_parallel_workers": 2, "attach_to": ["tcp://a:1"]}, ValueError, "DING_RUN_TOKEN"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(options, error, message, monkeypatch) -> None:
    monkeypatch.delenv("DING_RUN_TOKEN", raising=False)
    with pytest.raises(error, match=message):
        Parallel.runner(**options)


def test_addresses() -> None:
    assert Parallel.get_node_addrs(2, "tcp", None, 4000) == ["tcp://127.0.0.1:4000", "tcp://127.0.0.1:4001"]
    assert Parallel.get_node_addrs(2, "tcp", "h") == ["tcp://h:50515", "tcp://h:50516"]
    assert [one[:6] for one in Parallel.get_node_addrs(2)] == ["ipc://"] * 2
    assert Parallel.padding_param(None, 2, 3) == [3, 4]
    assert Parallel.padding_param([7, 9], 2, 3) == [7, 9]
    assert Parallel.get_ip().count(".") == 3
