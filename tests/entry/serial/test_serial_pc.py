"""The pipeline of procedure cloning: epochs and validation, exact resume, the shipped config, the command line."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import ding
from ding.config import ConfigValueError, read_config
from ding.entry import serial_pipeline_pc
from ding.entry.cli import cli
from tests.entry.serial.test_serial_exact_resume import digest_of, newest_good_snapshot, resumed_config

CONFIG_FILE = Path(ding.__file__).parents[1] / "configs" / "maze" / "maze_pc_bfs_config.py"


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(exp_name="e", **learn):
    main, create = read_config(CONFIG_FILE)
    main.exp_name, main.train_seeds = exp_name, 2
    main.env.update(size=8, evaluator_env_num=2, n_evaluator_episode=4, max_step=20)
    main.policy.update(maze_size=8, max_bfs_steps=10)
    main.policy.model.update(obs_shape=[8, 8, 8], encoder_hidden_size_list=[8])
    main.policy.learn.update(batch_size=16, train_epoch=2, **learn)
    return main, create


def test_two_epochs(caplog):
    with caplog.at_level(logging.INFO, "ding.entry"):
        policy, stop = serial_pipeline_pc(config(), seed=0, strict=True)
    result = json.loads(Path("e/result.json").read_text())
    assert result["env_step"] == 0
    lines = [record.getMessage() for record in caplog.records if "validation_loss" in record.getMessage()]
    assert [int(line.split()[-3]) for line in lines] == [result["train_iter"] // 2, result["train_iter"]]
    losses = [float(line.split()[1].rstrip(",")) for line in lines]
    assert losses[1] < losses[0]
    assert stop is (result["stop"] is True)
    again, _ = serial_pipeline_pc(config("again"), seed=0)
    weights = policy.learn_mode.state_dict()["model"]
    assert all(torch.equal(value, again.learn_mode.state_dict()["model"][key]) for key, value in weights.items())


def test_a_resumed_run_is_the_run_that_went_on():
    decay = {"lr_decay": True, "warmup_epoch": 0, "decay_epoch": 1}
    serial_pipeline_pc(config("whole", run_state_freq=3, **decay), seed=0, max_iter=9)
    serial_pipeline_pc(config("part", run_state_freq=3, **decay), seed=0, max_iter=6)
    again = resumed_config(config("part", run_state_freq=3, resume_training=True, **decay), "part")
    serial_pipeline_pc(again, seed=0, max_iter=9)
    left, right = newest_good_snapshot("whole"), newest_good_snapshot("part")
    assert left.name == right.name
    assert digest_of(left, False) == digest_of(right, False)


def test_the_command_line_and_wrong_configs():
    main, create = config()
    Path("config.py").write_text(f"main_config = {dict(main)!r}\ncreate_config = {dict(create)!r}\n")
    done = CliRunner().invoke(cli, ["-m", "serial_pc", "-c", "config.py", "--train-iter", "1", "--quiet"])
    assert done.exit_code == 0, done.output
    with pytest.raises(ConfigValueError, match=r"policy.type 'pc_bfs', .* found 'bc'"):
        serial_pipeline_pc((main, {**create, "policy": {"type": "bc"}}))
    main.policy.model.obs_shape = [7, 8, 8]
    with pytest.raises(ConfigValueError, match=r"obs_shape\[0\] must be 8"):
        serial_pipeline_pc((main, create))
    main.policy.maze_size = 6
    with pytest.raises(ConfigValueError, match=r"policy.maze_size=6: env.size must be at least 7"):
        serial_pipeline_pc((main, create))
    main.train_seeds = 0
    with pytest.raises(ConfigValueError, match="train_seeds"):
        serial_pipeline_pc((main, create))


@pytest.mark.slow
def test_it_finds_the_goals_of_mazes_that_it_has_not_seen():
    main, create = read_config(CONFIG_FILE)
    policy, stop = serial_pipeline_pc((main, create), seed=0)
    assert stop
    assert np.isfinite(policy.learn_mode.state_dict()["optimizer"]["param_groups"][0]["lr"])
