"""The picture of a parallel run, its views, the folders and the figures of the run."""

import io
import json
import logging
import os

import pytest
from easydict import EasyDict
from rich.console import Console

from ding.entry._parallel_view import LiveParallelView, Picture, PlainParallelView
from ding.entry._roles import import_names_of, make_roles, run_status, worker_config
from ding.entry.parallel_entry import (
    describe_result,
    load_parallel_input,
    newest_checkpoint,
    run_folder,
    set_folder,
    write_result,
)

PROCESSES = {
    "coordinator": {"state": "running", "pid": 10, "restarts": 0, "uptime_s": 4.0, "last_end": None},
    "collector0": {"state": "waiting", "pid": None, "restarts": 2, "uptime_s": 0.0, "last_end": "ended by SIGKILL"},
}


def status_of(rows, iters, last=None):
    raw = {
        "train_iter": iters,
        "envstep": 0,
        "last_evaluation": last,
        "buffers": {"held": {"b": {"rows": rows}}, "rows": rows, "sampled_rows": 3 * rows},
        "workers": {"collector0": {"role": "collector", "state": "busy", "task_id": "collector_task_7"}},
    }
    return run_status(raw, 1.0)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_the_figures_of_the_run():
    status = status_of(40, 7, {"reward_mean": 9.5})
    assert (status["env_step"], status["train_iter"], status["return"], status["elapsed_s"]) == (40, 7, 9.5, 1.0)
    assert run_status({"envstep": 50, "train_iter": 0}, 0.0)["env_step"] == 50
    assert run_status({"envstep": 50, "train_iter": 0}, 0.0)["return"] is None
    # Of both players of a game.
    raw = {"envstep": 50, "train_iter": 0, "samples_per_step": 2, "buffers": {"rows": 130}}
    assert run_status(raw, 0.0)["env_step"] == 65


def test_rates_are_of_the_last_seconds_and_the_ratio_of_the_whole_run():
    clock = Clock()
    picture = Picture(clock)
    assert picture.take(status_of(0, 0), PROCESSES) is False
    clock.now += 2
    assert picture.take(status_of(100, 20, {"reward_mean": 9.5}), PROCESSES) is True
    assert (picture.env_rate, picture.train_rate) == (50.0, 10.0)
    assert picture.sample_ratio == 3.0
    assert picture.line() == (
        "return 9.5, env step 100 (50/s), train iter 20 (10/s), sample/insert 3.00, buffer 100, "
        "1 processes (2 restarts), 00:02"
    )


def test_nothing_new_is_no_evaluation():
    picture = Picture()
    status = status_of(1, 1, {"reward_mean": 1.0})
    assert picture.take(status, PROCESSES) is True
    assert picture.take(status, PROCESSES) is False
    assert picture.take(None, {}) is False


def test_the_plain_view_writes_evaluations_and_signs_of_life(caplog):
    clock = Clock()
    view, picture = PlainParallelView(10.0, clock), Picture(clock)
    with caplog.at_level(logging.INFO, "ding.entry"):
        view.start("exp")
        view.update(picture, evaluated=False)
        view.update(picture, evaluated=True)
        clock.now += 11
        view.update(picture, evaluated=False)
        view.finish("solved", ok=True)
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "exp: the processes start",
        "return -",
        "return -",
        "exp: solved",
    ]


def test_the_live_view_shows_roles_and_run():
    out = io.StringIO()
    view = LiveParallelView(Console(file=out, width=120))
    picture = Picture()
    picture.take(status_of(1234, 7, {"reward_mean": 9.5}), PROCESSES)
    view.start("exp")
    view.update(picture, evaluated=True)
    view.finish("solved: return 9.50", ok=True)
    text = out.getvalue()
    for part in ("1,234", "9.5", "collector0", "collector_task_7", "waiting", "exp: solved: return 9.50"):
        assert part in text


@pytest.fixture
def cfg(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worker = {"path_data": "auto", "path_policy": "auto", "port": 0}
    return EasyDict(
        seed=0,
        main={"exp_name": "exp", "policy": {"other": {"commander": {}}}},
        system={
            "coordinator": {"learner": {"learner0": []}, "collector": {"collector0": [], "collector1": []}},
            "learner0": dict(worker),
            "collector0": dict(worker),
            "collector1": dict(worker),
        },
    )


def test_auto_folders_lie_in_the_run_folder_which_goes(cfg):
    with run_folder(cfg) as run_dir:
        data = cfg.system.coordinator.path_data
        assert os.path.dirname(data) == str(run_dir.path)
        assert os.path.isdir(data)
        assert {cfg.system[name].path_data for name in ("learner0", "collector0", "collector1")} == {data}
        assert cfg.main.policy.other.commander.path_policy == cfg.system.learner0.path_policy
    assert not run_dir.path.exists()
    assert not os.path.exists("exp/run")


def test_a_folder_that_was_named_is_kept(cfg, tmp_path):
    for name in ("learner0", "collector0", "collector1"):
        cfg.system[name].path_data = "mine"
    set_folder(cfg, "path_data", "other")
    assert cfg.system.coordinator.path_data == "mine"
    assert os.listdir(tmp_path) == ["mine"]


def test_one_role_per_process_and_the_coordinator_stops_first(cfg):
    roles = make_roles(cfg, {"train_iter": 3})
    assert [(role.name, role.stop_phase, role.ends_run) for role in roles] == [
        ("coordinator", 0, True),
        ("learner0", 1, False),
        ("collector0", 1, False),
        ("collector1", 1, False),
    ]
    assert roles[0].payload["limits"] == {"train_iter": 3}


def test_what_a_worker_may_import_is_what_the_own_config_names(cfg):
    names = list(import_names_of({"a": {"import_names": ["x", "y"]}, "b": [{"import_names": "z"}]}))
    assert names == ["x", "y", "z"]
    own = worker_config({"import_names": ["m"], "port": 0}, "collector0", names, "http://h:1")
    assert own.import_names == ["m", "x", "y", "z"]
    assert (own.name, own.coordinator_address) == ("collector0", "http://h:1")


def test_the_result_names_the_last_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("exp/ckpt")
    assert newest_checkpoint("exp") is None
    for age, name in enumerate(("resume_task.pth.tar", "iteration_0.pth.tar")):
        path = tmp_path / "exp" / "ckpt" / name
        path.touch()
        os.utime(path, (1000 - age, 1000 - age))
    result = write_result({"solved": True, "return": 200.0, "env_step": 5, "train_iter": 6, "elapsed_s": 7.0}, "exp")
    assert result["checkpoint"] == "exp/ckpt/ckpt_final.pth.tar"
    assert sorted(os.listdir("exp/ckpt")) == ["ckpt_final.pth.tar", "iteration_0.pth.tar"]
    assert json.loads((tmp_path / "exp" / "result.json").read_text()) == result
    assert describe_result(result) == (
        "solved: return 200.00 after 5 env steps and 6 train iterations in 7.0 s; "
        "the policy is in exp/ckpt/ckpt_final.pth.tar"
    )


def test_a_config_that_is_no_triple():
    with pytest.raises(TypeError, match="triple"):
        load_parallel_input(({}, {}))
    with pytest.raises(TypeError, match="triple"):
        load_parallel_input(3)
