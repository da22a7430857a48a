"""``ditask`` and what processes exchange: a training that outlives a kill, custom middleware, models, barriers."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import ditask_toys as toys
import pytest
from click.testing import CliRunner
from runner_notes import is_gone, notes

from ding.entry.cli_ditask import cli_ditask
from ding.entry.view.event_files import read_files
from ding.entry.view.runs import event_files
from ding.framework import Parallel

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals"),
    pytest.mark.usefixtures("shared_fork_server"),
]
HERE = Path(__file__).parent


def ditask(tmp_path: Path, main: str, *options: str, token: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "ding.entry.cli_ditask", "--package", str(HERE), "--main", main, *options]
    paths = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "DITASK_FOLDER": str(tmp_path), "PYTHONPATH": paths, "DING_RUN_TOKEN": token}
    return subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_dqn_on_four_processes_outlives_the_kill_of_a_collector_and_ends_cleanly(tmp_path) -> None:
    options = ["--parallel-workers", "4", "--log-dir", str(tmp_path / "log")]
    run = ditask(tmp_path, "ditask_toys.trains", *options, token="t")
    _, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors
    assert "node3 ended by SIGKILL; it is started again" in errors
    first, second = notes(tmp_path, "pid0"), notes(tmp_path, "pid1")
    assert (set(first), set(second)) == ({0, 1, 2, 3}, {3})
    assert all(is_gone(pid) for pid in [*first.values(), *second.values()])
    assert set(notes(tmp_path, "ended0")) == {0, 1, 2}
    assert set(notes(tmp_path, "ended1")) == {3}
    curve = read_files(event_files(tmp_path / "exp"))["basic/eval_episode_return_mean"]
    assert len(curve) >= 3
    assert curve.values[-1] >= 195
    assert curve.steps.tolist() == sorted(curve.steps)
    assert {"eval.pth.tar", "final.pth.tar"} <= {path.name for path in (tmp_path / "exp" / "ckpt").iterdir()}


def test_processes_that_are_started_apart_make_one_run(tmp_path) -> None:
    first_port = free_ports(3)
    own = ["--protocol", "tcp", "--ports"]
    first = ditask(
        tmp_path, "ditask_toys.meets", *own, f"{first_port[0]},{first_port[1]}", "--parallel-workers", "2", token="t"
    )
    dialled = ",".join(f"tcp://127.0.0.1:{port}" for port in first_port[:2])
    apart = ["--attach-to", dialled, "--node-ids", "2", *own, str(first_port[2])]
    end_when_refused(ditask(tmp_path, "ditask_toys.meets", *apart, token="another"))
    second = ditask(tmp_path, "ditask_toys.meets", *apart, token="t")
    errors = [run.communicate(timeout=120)[1] for run in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], errors
    assert {node: set(heard) for node, heard in notes(tmp_path, "met").items()} == {0: {1, 2}, 1: {0, 2}, 2: {0, 1}}


def free_ports(num: int) -> list[int]:
    probes = [socket.socket() for _ in range(num)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def end_when_refused(stranger: "subprocess.Popen[str]") -> None:
    """One with another token is no part of the run."""
    assert any("does not know the token" in line for line in stranger.stderr)
    stranger.kill()
    stranger.communicate()


def test_the_example_runs_in_three_processes(tmp_path) -> None:
    Parallel.runner(3)(toys.trains_a_little, str(tmp_path))
    ended = notes(tmp_path, "ended")
    assert set(ended) == {0, 1, 2}
    assert ended[0][0] > 200 or ended[2][0] > 200
    assert ended[0][1] > 0
    assert (tmp_path / "exp" / "ckpt" / "final.pth.tar").exists()
    assert len(read_files(event_files(tmp_path / "exp"))["basic/eval_episode_return_mean"]) >= 1


OWN = [["forward", 1], ["backward", 2], ["forward", 3], ["backward", 6], ["forward", 7], ["backward", 14]]


@pytest.mark.parametrize("async_mode", [False, True])
def test_custom_middleware_in_one_process(tmp_path, async_mode: bool) -> None:
    Parallel.runner(1)(toys.own_middleware, str(tmp_path), async_mode)
    assert notes(tmp_path, "seen") == {0: OWN}


def test_custom_middleware_in_three_processes(tmp_path) -> None:
    Parallel.runner(3)(toys.own_middleware, str(tmp_path))
    assert notes(tmp_path, "seen")[0] == OWN
    assert all(seen == OWN[: len(seen)] for seen in notes(tmp_path, "seen").values())


@pytest.mark.parametrize("through_files", [False, True])
def test_contexts_and_models_are_exchanged(tmp_path, through_files: bool) -> None:
    Parallel.runner(4)(toys.exchanges, str(tmp_path), through_files)
    seen = notes(tmp_path, "seen")
    learned = [one for one in seen[0] if one["num"]]
    assert len(learned) >= 12
    assert {node for one in learned for node in one["nodes"]} == {2, 3}
    for one in learned:
        assert one["num"] % 3 == 0
        assert set(one["dones"]) <= set(one["ends"])
        assert one["ends"] == [3 * i + end for i in range(one["num"] // 3) for end in (0, 2)]
    assert [one["env_step"] for one in learned] == _sums([one["num"] for one in learned])
    assert seen[0][-1]["last_eval_value"] == 7.0
    # A model is the newest one or one that is newer than the counter that came before it, and never goes back.
    weights = [one["weight"] for one in seen[1] if one["weight"] >= 10]
    assert weights == sorted(weights)
    assert all(weight % 10 == 0 for weight in weights)


def _sums(numbers: list[int]) -> list[int]:
    return [sum(numbers[: i + 1]) for i in range(len(numbers))]


def test_statistics_of_observations_are_those_of_all_collectors(tmp_path) -> None:
    Parallel.runner(4)(toys.exchanges_statistics, str(tmp_path))
    # Of nodes 2 and 3, each with as many observations.
    assert notes(tmp_path, "mean") == pytest.approx(dict.fromkeys(range(4), 250), abs=1)


def test_a_model_is_exchanged_every_second_iteration(tmp_path) -> None:
    Parallel.runner(2)(toys.exchanges_periodically, str(tmp_path))
    numbers = notes(tmp_path, "numbers")[1]
    received = [number for number in numbers[1:] if number >= 2]
    assert received == sorted(received)
    assert all(number % 2 == 0 for number in received)
    assert received[-1] >= 6


def test_barriers_keep_processes_together(tmp_path) -> None:
    Parallel.runner(3)(toys.waits_at_barriers, str(tmp_path))
    # All have written their file of this iteration, and nobody that of the next one.
    assert all(counts == [3, 0] for seen in notes(tmp_path, "seen").values() for counts in seen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--main", "ditask_toys.nothing"], "no function 'nothing'"),
        (["--main", "main"], "module.function"),
        (["--main", "no_such_module.main"], "no_such_module"),
        (["--main", "ditask_toys.trains", "--attach-to", "tcp://a:1"], "token is missing"),
        (["--main", "ditask_toys.trains", "--ports", "1,x"], "whole numbers"),
        (["--main", "ditask_toys.trains", "--parallel-workers", "3", "--node-ids", "1,2"], "2 values for 3 nodes"),
        (["--main", "ditask_toys.trains", "--platform", "k8s"], "DI_NODES is not set"),
        (["--main", "ditask_toys.trains", "--platform-spec", "{"], "--platform-spec"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: list[str], message: str, monkeypatch) -> None:
    monkeypatch.delenv("DING_RUN_TOKEN", raising=False)
    monkeypatch.delenv("DI_NODES", raising=False)
    result = CliRunner().invoke(cli_ditask, ["--package", str(HERE), *options])
    assert result.exit_code == 2, result.output
    assert re.search(re.escape(message), result.output)
