"""What a coordinator reports, the roles, the folders and the result of a parallel run."""

import json
import os

import pytest
from easydict import EasyDict

from ding.entry.parallel.places import place_of, set_folder
from ding.entry.parallel.reports import ReportReader, finish_run, newest_checkpoint, with_run_figures
from ding.entry.parallel.roles import make_roles
from ding.entry.parallel.workers import import_names_of, worker_config
from ding.entry.parallel_entry import load_parallel_input
from ding.entry.view.access_file import AccessFile
from ding.parallel.launch import ProcessStatus
from ding.utils.checkpoint import read_checkpoint, save_checkpoint
from ding.utils.credentials import wire_token, worker_of, worker_token_of


def report_of(rows, iters, last=None):
    raw = {
        "train_iter": iters,
        "envstep": 0,
        "last_evaluation": last,
        "buffers": {"held": {"b": {"rows": rows}}, "rows": rows, "sampled_rows": 3 * rows},
        "workers": {"collector0": {"role": "collector", "state": "busy", "task_id": "collector_task_7"}},
    }
    return with_run_figures(raw, 1.0)


def test_the_figures_of_the_run():
    report = report_of(40, 7, {"reward_mean": 9.5})
    assert (report["env_step"], report["train_iter"], report["return"], report["elapsed_s"]) == (40, 7, 9.5, 1.0)
    assert with_run_figures({"envstep": 50, "train_iter": 0}, 0.0)["env_step"] == 50
    assert with_run_figures({"envstep": 50, "train_iter": 0}, 0.0)["return"] is None
    # Of both players of a game.
    raw = {"envstep": 50, "train_iter": 0, "samples_per_step": 2, "buffers": {"rows": 130}}
    assert with_run_figures(raw, 0.0)["env_step"] == 65


def test_a_report_becomes_a_status_of_the_run():
    now = [100.0]
    reader = ReportReader("exp", {"train_iter": 50}, 195, lambda: now[0])
    processes = {"collector0": ProcessStatus("running", 10)}
    now[0] += 2
    status = reader.read(report_of(100, 20, {"reward_mean": 9.5}), processes)
    assert (status.exp_name, status.env_step, status.train_iter, status.elapsed_s) == ("exp", 100, 20, 2.0)
    assert (status.last_return, status.evaluations, status.stop_value) == (9.5, 1, 195)
    assert (status.max_train_iter, status.share) == (50, 0.4)
    assert (status.buffer_rows, status.pushed_rows, status.sample_ratio) == (100, 100, 3.0)
    assert (status.processes, status.workers["collector0"].does) == (processes, "collector_task_7")


def test_an_evaluation_counts_once():
    reader = ReportReader("exp", {})
    assert reader.read(report_of(0, 0)).evaluations == 0
    report = report_of(1, 1, {"reward_mean": 1.0})
    assert [reader.read(one).evaluations for one in (report, report, None)] == [1, 1, 1]
    assert reader.read(report_of(2, 2, {"reward_mean": 2.0})).evaluations == 2


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
    with place_of(cfg) as place:
        run_dir = place.run_dir
        data = cfg.system.coordinator.path_data
        assert os.path.dirname(data) == str(run_dir)
        assert os.path.isdir(data)
        assert {cfg.system[name].path_data for name in ("learner0", "collector0", "collector1")} == {data}
        assert cfg.main.policy.other.commander.path_policy == cfg.system.learner0.path_policy
    assert not run_dir.exists()
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
    run_token = "t" * 32
    assert [worker_of(wire_token(worker_token_of(run_token, role.worker)), run_token) for role in roles] == [
        None,
        ("learner", "learner0"),
        ("collector", "collector0"),
        ("collector", "collector1"),
    ]


def test_the_tokens_of_ranks_are_made_of_that_of_their_aggregator(cfg):
    cfg.system.learner0.update(multi_gpu=True, gpu_num=2)
    tokens = {role.name: worker_token_of("t" * 32, role.worker) for role in make_roles(cfg, {})}
    for rank in ("learner0_rank0", "learner0_rank1"):
        sent = wire_token(tokens[rank])
        assert worker_of(sent, tokens["learner0"]) == ("learner", rank)
        assert worker_of(sent, tokens["coordinator"]) is None
    assert worker_of(wire_token(tokens["learner0"]), tokens["coordinator"]) == ("learner", "learner0")


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
    report = {"solved": True, "return": 200.0, "env_step": 5, "train_iter": 6, "elapsed_s": 7.0}
    result, sentence = finish_run(ReportReader("exp", {}, clock=lambda: 0.0).read(report))
    assert result["checkpoint"] == "exp/ckpt/ckpt_final.pth.tar"
    assert sorted(os.listdir("exp/ckpt")) == ["ckpt_final.pth.tar", "iteration_0.pth.tar"]
    assert json.loads((tmp_path / "exp" / "result.json").read_text()) == result
    assert sentence == (
        "solved: last and best evaluation: return 200.00 after 5 env steps and 6 train iterations in 0.0 s; "
        "the last policy is in exp/ckpt/ckpt_final.pth.tar; next: ding -m eval exp, or ding plot exp"
    )


def saved(name, train_iter, time_s):
    path = f"exp/ckpt/{name}.pth.tar"
    save_checkpoint(path, {"model": {}, "last_iter": train_iter, "last_step": 0}, {"train_iter": train_iter})
    os.utime(path, (time_s, time_s))


def test_a_clock_that_is_set_back_makes_no_untrained_checkpoint_the_last_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("exp/ckpt")
    saved("iteration_0", 0, 9000)
    saved("iteration_9000", 9000, 8000)
    saved("iteration_10000", 10000, 7000)
    assert newest_checkpoint("exp") == "exp/ckpt/iteration_10000.pth.tar"
    saved("resume_task_1", 10050, 6000)
    assert finish_run(status_at(10040))[0]["checkpoint"] == "exp/ckpt/ckpt_final.pth.tar"
    assert read_checkpoint("exp/ckpt/ckpt_final.pth.tar")["last_iter"] == 10050
    # Of another writer, whose name alone says how far it was.
    (tmp_path / "exp/ckpt/iteration_20000.pth.tar").touch()
    assert newest_checkpoint("exp") == "exp/ckpt/iteration_20000.pth.tar"


def test_a_run_that_went_back_to_a_snapshot_ends_with_its_own_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("exp/ckpt")
    saved("iteration_10000", 10000, 1000)
    saved("resume_task_1", 8020, 2000)
    assert newest_checkpoint("exp", 8010) == "exp/ckpt/resume_task_1.pth.tar"
    # The learner did not get to write one at the end.
    saved("resume_task_1", 8005, 2000)
    saved("iteration_10000", 10000, 3000)
    assert newest_checkpoint("exp", 9000) == "exp/ckpt/iteration_10000.pth.tar"


def status_at(train_iter):
    report = {"solved": True, "return": 200.0, "env_step": 5, "train_iter": train_iter, "elapsed_s": 7.0}
    return ReportReader("exp", {}, clock=lambda: 0.0).read(report)


@pytest.mark.parametrize(
    ("content", "stays"),
    [('{"token": "mine"}', False), ('{"token": "yours"}', True), ("{", False), ("[]", False), (None, False)],
)
def test_the_end_of_a_run_leaves_the_access_file_of_another_one(tmp_path, content, stays):
    path = tmp_path / "access.json"
    if content is not None:
        path.write_text(content)
    AccessFile(str(tmp_path), "mine").remove()
    assert path.exists() == stays


def test_a_config_that_is_no_triple():
    with pytest.raises(TypeError, match="triple"):
        load_parallel_input(({}, {}))
    with pytest.raises(TypeError, match="triple"):
        load_parallel_input(3)
