"""The configs that learn from data sets: some updates on made-up data; the slow ones reach their stop value."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ding
from ding.config import read_config
from ding.data import columns_save
from ding.entry import serial_pipeline_bc, serial_pipeline_offline
from ding.utils.data import naive_save

FOLDER = Path(ding.__file__).parents[1] / "configs"
# Config -> what makes its data.
CONFIGS = {
    "cartpole_cql": "cartpole_dqn_generation_data",
    "cartpole_dt": "cartpole_dqn_generation_data",
    **{
        f"pendulum_{name}": "pendulum_sac_data_generation"
        for name in ("bcq", "cql", "dt", "edac", "ibc", "iql", "rebrac", "td3_bc", "xql")
    },
}
SIZES = {"cartpole": (4, None), "pendulum": (3, 1)}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config_file(name: str) -> Path:
    return FOLDER / name.partition("_")[0] / f"{name}_config.py"


def make_data(name: str, path: str, episodes: bool, count: int = 64) -> None:
    obs_dim, action_dim = SIZES[name.partition("_")[0]]
    rng = np.random.default_rng(0)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "obs": rng.normal(size=(count, obs_dim)).astype(np.float32),
        "next_obs": rng.normal(size=(count, obs_dim)).astype(np.float32),
        "action": rng.integers(0, 2, (count, 1)) if action_dim is None else rng.uniform(-1, 1, (count, action_dim)),
        "reward": rng.normal(size=(count, 1)).astype(np.float32),
        "done": np.zeros(count, bool),
    }
    if episodes:
        naive_save([[{key: value[i] for key, value in columns.items()} for i in range(count)]], path)
    else:
        columns_save(columns, path)


@pytest.mark.parametrize("name", CONFIGS)
def test_some_updates(name):
    main, create = read_config(config_file(name))
    main.exp_name, main.env.evaluator_env_num, main.env.n_evaluator_episode = "e", 1, 1
    episodes = main.policy.collect.data_type == "d4rl_trajectory"
    make_data(name, main.dataset.data_dir_prefix if episodes else main.policy.collect.data_path, episodes)
    serial_pipeline_offline((main, create), seed=0, max_train_iter=2, strict=True)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] == 2


@pytest.mark.parametrize("name", ["pd", "bc"])
def test_some_updates_on_a_point_mass(name):
    pytest.importorskip("h5py")
    main, create = read_config(FOLDER / "point_mass" / f"point_mass_{name}_config.py")
    make = runpy.run_path(str(FOLDER / "point_mass" / "point_mass_data_generation.py"))["make_data"]
    assert len(make(main.policy.collect.data_path, num_episodes=4)) == 4
    main.exp_name, main.env.evaluator_env_num, main.env.n_evaluator_episode = "e", 1, 1
    main.env.max_step = 2
    pipeline = serial_pipeline_bc if name == "bc" else serial_pipeline_offline
    limit = {"max_iter": 1} if name == "bc" else {"max_train_iter": 2}
    pipeline((main, create), seed=0, strict=True, **limit)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_the_stop_value_is_reached(name):
    subprocess.run([sys.executable, str(config_file(CONFIGS[name]))], check=True)
    _, solved = serial_pipeline_offline(str(config_file(name)), seed=0, max_train_iter=30_000, strict=True)
    assert solved
