"""Prioritised level replay as a pipeline: what is played, exact resume, the mode."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data.level_replay import LevelSampler
from ding.entry import serial_pipeline_plr
from ding.entry.cli import cli
from ding.entry.serial.run_state import newest_good_snapshot

CONFIG = {
    "exp_name": "e",
    "env": {
        "size": 5,
        "wall_type": "tree",
        "flat_obs": True,
        "max_step": 8,
        "collector_env_num": 2,
        "evaluator_env_num": 1,
        "n_evaluator_episode": 1,
        "stop_value": 2,
    },
    "policy": {
        "model": {
            "obs_shape": 75,
            "action_shape": 4,
            "encoder_hidden_size_list": [8, 8],
            "actor_head_hidden_size": 8,
            "critic_head_hidden_size": 8,
        },
        "learn": {"epoch_per_collect": 1, "batch_size": 16},
        "collect": {"n_sample": 32},
    },
    "level_replay": {"num_levels": 6, "rho": 0.5},
}
CREATE = {
    "env": {"type": "maze", "import_names": ["ding.envs.zoo.maze_env"]},
    "env_manager": {"type": "base"},
    "policy": {"type": "ppo"},
}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(exp_name="e", **learn):
    main = EasyDict(deepcopy(CONFIG))
    main.exp_name = exp_name
    main.policy.learn.update(learn)
    return main, EasyDict(deepcopy(CREATE))


def weights(policy):
    return torch.cat([value.reshape(-1) for value in policy.learn_mode.state_dict()["model"].values()])


def test_each_env_plays_the_level_of_its_seed(monkeypatch):
    seen = []

    def note(self, data, num_actors):
        seen.append(data)
        original(self, data, num_actors)

    original = LevelSampler.update_with_rollouts
    monkeypatch.setattr(LevelSampler, "update_with_rollouts", note)
    serial_pipeline_plr(config(), max_env_step=160)
    assert len(seen) == 5
    assert set(seen[0]["seed"].tolist()) == {0, 1}
    levels: dict[int, set[bytes]] = {}
    for data in seen:
        for level, obs in zip(data["seed"].tolist(), data["obs"]):
            levels.setdefault(level, set()).add(obs.reshape(25, 3)[:, :2].numpy().tobytes())
    # All observations of a level have one arrangement of walls and goal, and half of the levels come first.
    assert {len(mazes) for mazes in levels.values()} == {1}
    assert len(levels) >= 3


def test_half_and_half_is_the_whole():
    learn = {"run_state_freq": 4}
    whole = serial_pipeline_plr(config("whole", **learn), seed=1, max_train_iter=8)
    serial_pipeline_plr(config("parts", **learn), seed=1, max_train_iter=4)
    main, create = config("parts", resume_training=True, **learn)
    main.policy.learn.learner = EasyDict(hook={"load_ckpt_before_run": str(newest_good_snapshot("parts"))})
    resumed = serial_pipeline_plr((main, create), seed=1, max_train_iter=8)
    assert torch.equal(weights(whole), weights(resumed))


def test_the_mode():
    Path("config.py").write_text(f"main_config = {CONFIG!r}\ncreate_config = {CREATE!r}\n")
    done = CliRunner().invoke(cli, ["-m", "serial_plr", "-c", "config.py", "--env-step", "64", "--quiet"])
    assert done.exit_code == 0, done.output
    assert json.loads(Path("e/result.json").read_text())["env_step"] == 64


def test_mistakes():
    main, create = config()
    main.level_replay.strategy = "gea"
    with pytest.raises(ConfigValueError, match="Did you mean 'gae'"):
        serial_pipeline_plr((main, create))
    create.collector, main.policy.collect.n_episode = EasyDict(type="episode"), main.env.collector_env_num
    with pytest.raises(ConfigValueError, match="must be 'sample' for level replay"):
        serial_pipeline_plr((main, create))
