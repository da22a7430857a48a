"""Finding runs, and reading what they hold without running it."""

from pathlib import Path

import pytest

from ding.entry.view.runs import event_files, find_runs, read_literals, seed_of


def touch(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_run_has_a_log_folder_a_saved_config_or_event_files(tmp_path):
    touch(tmp_path / "a" / "seed0" / "log" / "serial" / "events.out.tfevents.1")
    touch(tmp_path / "a" / "seed0" / "eval" / "now" / "log" / "evaluator.txt")
    touch(tmp_path / "b" / "total_config.py")
    touch(tmp_path / "c" / "deep" / "events.out.tfevents.1")
    touch(tmp_path / ".hidden" / "total_config.py")
    touch(tmp_path / "d" / "notes.txt")
    assert find_runs([tmp_path]) == [tmp_path / "a" / "seed0", tmp_path / "b", tmp_path / "c" / "deep"]


def test_evaluations_inside_a_run_are_no_curves_of_it(tmp_path):
    curves = [tmp_path / "events.out.tfevents.2", tmp_path / "log" / "serial" / "events.out.tfevents.1"]
    for path in [*curves, tmp_path / "eval" / "now" / "events.out.tfevents.3"]:
        touch(path)
    assert event_files(tmp_path) == curves


def test_a_config_is_read_and_not_run(tmp_path):
    path = tmp_path / "total_config.py"
    touch(
        path,
        "from easydict import EasyDict\n"
        "import os\n"
        "os.remove('nothing')\n"
        "main_config = EasyDict({'a': {'b': [1, -2.5, (None, True)], 3: 'x'},\n"
        "                         'most': float('inf'), 'f': os.getcwd()})\n"
        "alias = main_config\n",
    )
    found = read_literals(path)
    assert found["main_config"] == {
        "a": {"b": [1, -2.5, (None, True)], 3: "x"},
        "most": float("inf"),
        "f": "os.getcwd()",
    }
    assert found["alias"] == "main_config"
    assert found["main_config"]["a"]["b"] == [1, -2.5, (None, True)]


@pytest.mark.parametrize(
    ("name", "config", "seed"),
    [("exp/seed3", {}, 3), ("exp/seed3", {"seed": 7}, 7), ("exp_seed12_260101_120000", {}, 12), ("exp", {}, None)],
)
def test_the_seed_stands_in_the_config_or_in_the_name(name, config, seed):
    assert seed_of(Path(name), config) == seed
