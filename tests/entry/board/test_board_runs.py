"""What the board knows of runs: states, curves, bad files."""

import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from tensorboardX import SummaryWriter

from ding.entry.board.curves import group_curves, run_curves
from ding.entry.board.runs import BoardRun, BoardRuns, metric_of


def make_run(folder, points=(), tag="evaluator_step/reward_mean", **status):
    (folder / "log").mkdir(parents=True)
    if points:
        writer = SummaryWriter(str(folder / "log" / "serial"))
        for step, value, wall_s in points:
            writer.add_scalar(tag, value, step, walltime=wall_s)
        writer.close()
    if status:
        (folder / "status.json").write_text(json.dumps(status))
    return folder


def loaded(folder):
    run = BoardRun(folder, folder.name)
    run.refresh()
    return run


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("learner_iter/total_loss_avg", ("learner/total_loss_avg", "iter")),
        ("evaluator_step/reward_mean", ("evaluator/reward_mean", "step")),
        ("basic/eval_episode_return_mean", ("basic/eval_episode_return_mean", "step")),
    ],
)
def test_a_metric_is_one_over_all_its_axes(tag, expected):
    assert metric_of(tag) == expected


def test_states(tmp_path):
    now_s, here = time.time(), {"host": socket.gethostname()}
    with subprocess.Popen([sys.executable, "-c", ""]) as over:
        over.wait()
    given = {
        "lasting": {"state": "running", "time_s": now_s - 3600, "pid": os.getpid(), "env_step": 5, **here},
        "killed": {"state": "running", "time_s": now_s, "pid": over.pid, **here},
        "elsewhere": {"state": "running", "time_s": now_s, "pid": over.pid, "host": "another"},
        "elsewhere_killed": {"state": "running", "time_s": now_s - 3600, "pid": os.getpid(), "host": "another"},
        "full": {"state": "stopped", "sentence": "the disk is full"},
        "old": {},
        "bare": {},
    }
    runs = {name: make_run(tmp_path / name, **status) for name, status in given.items()}
    (runs["old"] / "result.json").write_text('{"eval_value": 3.0}')
    loaded_runs = {name: loaded(folder) for name, folder in runs.items()}
    assert {name: run.state for name, run in loaded_runs.items()} == {
        "lasting": "running",
        "killed": "lost",
        "elsewhere": "running",
        "elsewhere_killed": "lost",
        "full": "stopped",
        "old": "ended",
        "bare": "unknown",
    }
    assert loaded_runs["old"].summary()["last_return"] == 3.0
    assert loaded_runs["lasting"].summary()["env_step"] == 5


def test_a_growing_run_is_followed(tmp_path):
    folder = make_run(tmp_path / "a", [(0, 1.0, 100.0)])
    runs = BoardRuns([tmp_path])
    (run,) = runs.refreshed()
    assert run.curve("evaluator/reward_mean", "step").values.tolist() == [1.0]
    writer = SummaryWriter(str(folder / "log" / "serial"), filename_suffix="later")
    writer.add_scalar("evaluator_step/reward_mean", 2.0, 10)
    writer.close()
    run.refresh()
    assert run.curve("evaluator/reward_mean", "step").values.tolist() == [1.0, 2.0]
    assert run.summary()["best_return"] == 2.0
    assert runs.get(run.id) is run
    assert runs.get("nothing") is None


def test_many_runs_are_shown_while_they_are_read(tmp_path):
    for name in ("a", "b", "c"):
        make_run(tmp_path / name, [(0, 1.0, 100.0)])
    runs = BoardRuns([tmp_path], read_s=0.0)
    seen = [([run.name for run in runs.refreshed()], runs.unread) for _ in range(3)]
    assert seen == [(["a"], 2), (["a", "b"], 1), (["a", "b", "c"], 0)]
    first = runs.refreshed()[0]
    assert runs.get(first.id) is first


def test_bad_files_are_named_and_the_rest_is_shown(tmp_path):
    folder = make_run(tmp_path / "a", [(0, 1.0, 100.0)])
    (folder / "status.json").write_text('{"state": "run')
    assert "status.json" in loaded(folder).fault
    (folder / "status.json").write_text("[]")
    assert "expected a JSON object, got list" in loaded(folder).fault
    (folder / "status.json").unlink()
    (folder / "total_config.py").write_text("a = {")
    assert "total_config.py" in loaded(folder).fault
    (folder / "total_config.py").unlink()
    (folder / "log" / "events.out.tfevents.0").write_bytes(bytes(range(64)))
    run = loaded(folder)
    assert "is this an event file?" in run.fault
    assert len(run.curve("evaluator/reward_mean", "step")) == 1


def test_curves_over_steps_and_hours_leave_out_what_is_not_finite(tmp_path):
    points = [(0, 1.0, 7200.0), (10, float("nan"), 9000.0), (20, 3.0, 10800.0)]
    run = loaded(make_run(tmp_path / "a", points))
    (steps,), (hours,) = (run_curves([run], "evaluator/reward_mean", axis) for axis in ("step", "hours"))
    assert steps == {"id": run.id, "x": [0.0, 20.0], "y": [1.0, 3.0], "nonfinite": 1}
    assert hours["x"] == [0.0, 1.0]
    assert run_curves([run], "evaluator/reward_mean", "iter") == []
    assert run_curves([run], "nothing", "step") == []


def test_long_curves_are_thinned_to_means_of_neighbours(tmp_path):
    run = loaded(make_run(tmp_path / "a", [(step, float(step), 1.0) for step in range(1000)]))
    (curve,) = run_curves([run], "evaluator/reward_mean", "step")
    assert len(curve["x"]) == len(curve["y"]) == 400
    assert curve["x"] == curve["y"]
    assert np.mean(curve["x"][:2]) < 3
    assert curve["x"][-1] > 997


def test_a_group_is_the_seeds_of_an_experiment(tmp_path):
    for seed, values in enumerate([(0.0, 10.0), (2.0, 12.0)]):
        make_run(tmp_path / "a" / f"seed{seed}", [(0, values[0], 1.0), (10, values[1], 2.0)])
    make_run(tmp_path / "b", [(5, 1.0, 1.0)])
    first, second = group_curves(BoardRuns([tmp_path]).refreshed(), "evaluator/reward_mean", "step")
    assert first == {
        "label": "a",
        "runs": 2,
        "x": [0.0, 10.0],
        "iqm": [1.0, 11.0],
        "low": [0.0, 10.0],
        "high": [2.0, 12.0],
    }
    assert (second["label"], second["runs"]) == ("b", 1)
