"""Policies that come with the repository."""

import shutil
from pathlib import Path

import pytest
import torch

import ding
from ding.bonus.common import ExperimentNotFoundError
from ding.config import read_config
from ding.utils.checkpoint import read_checkpoint

TRAINED = Path(__file__).resolve().parents[2] / "trained"
NAMES = sorted(path.name for path in TRAINED.iterdir() if path.is_dir())
NEEDS = {"lunarlander_ppo": "Box2D"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_they_are_small():
    sizes = [path.stat().st_size for path in TRAINED.rglob("*") if path.suffix in (".py", ".json", ".tar")]
    assert max(sizes) <= 200_000
    assert sum(sizes) <= 5_000_000


@pytest.mark.parametrize("name", NAMES)
def test_each_reaches_what_its_run_reached(name):
    pytest.importorskip(NEEDS.get(name, "gymnasium"))
    agent = ding.load(f"trained/{name}", seed=3)
    stop_value = read_config(str(TRAINED / name / "total_config.py"))[0].env.stop_value
    found = agent.batch_evaluate(env_num=4, n_evaluator_episode=8)
    # Other episodes than those of the run; random policies are far below.
    assert found.eval_value > stop_value - 0.6 * abs(stop_value)
    assert not list(Path().iterdir())


def test_training_begins_with_its_networks_in_a_folder_of_its_own():
    files = {path: path.stat().st_mtime_ns for path in TRAINED.rglob("*")}
    agent = ding.load("trained/cartpole_dqn")
    assert agent.exp_name == "cartpole_dqn"
    state = agent.policy.learn_mode.state_dict()
    weights = read_checkpoint(TRAINED / "cartpole_dqn/ckpt/ckpt_best.pth.tar")["model"]
    for part in ("model", "target_model"):
        for key, value in weights.items():
            torch.testing.assert_close(state[part][key], value)
    agent.cfg.env.stop_value = 1000
    agent.train(step=64, evaluator_env_num=1)
    assert {"ckpt", "result.json"} <= {path.name for path in Path("cartpole_dqn").iterdir()}
    assert {path: path.stat().st_mtime_ns for path in TRAINED.rglob("*")} == files


def test_a_name_that_is_none_gets_the_nearest(tmp_path, monkeypatch):
    with pytest.raises(ExperimentNotFoundError, match=r"'trained/cartpole_dqnn'; did you mean 'trained/cartpole_dqn'"):
        ding.load("trained/cartpole_dqnn")
    monkeypatch.setattr("ding.bonus.experiment._TRAINED", tmp_path / "trained")
    with pytest.raises(ExperimentNotFoundError, match="part of a checkout of the repository"):
        ding.load("trained/cartpole_dqn")


def test_a_folder_of_this_name_in_the_current_one_comes_first(tmp_path):
    shutil.copytree(TRAINED / "cartpole_ppo", tmp_path / "trained/mine")
    assert ding.load("trained/mine").exp_name == "trained/mine"
