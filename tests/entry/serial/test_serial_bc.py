"""Behaviour cloning from data sets of several kinds."""

import json
import logging
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import ding
from ding.config import ConfigValueError, read_config
from ding.entry import serial_pipeline_bc
from ding.entry.cli import cli
from ding.policy import BehaviourCloningPolicy
from ding.utils import POLICY_REGISTRY
from ding.utils.data import DatasetError, offline_data_save_type

CONFIG_FILE = Path(ding.__file__).parents[1] / "configs" / "cartpole" / "cartpole_bc_config.py"
ROWS = 80


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create = read_config(CONFIG_FILE)
    main.exp_name = "e"
    main.env.update(evaluator_env_num=2, n_evaluator_episode=2)
    main.policy.model.encoder_hidden_size_list = [8, 8]
    main.policy.learn.update(batch_size=8, train_epoch=2)
    main.policy.eval.evaluator.eval_freq = 100
    return main, create


def rows(num_actions=2):
    """What an expert would do that goes where the pole leans."""
    obs = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(0))
    return [
        {
            "obs": one,
            "next_obs": one,
            "action": (one[2:3] > 0).long() * (num_actions - 1),
            "reward": one[:1],
            "done": False,
        }
        for one in obs
    ]


def test_an_epoch_draws_nine_tenths_and_validates_on_the_rest(config, caplog):
    offline_data_save_type(rows(), "d.pkl", "naive")
    config[0].policy.learn.update(train_epoch=12, optimizer="Adam", learning_rate=0.03)
    with caplog.at_level(logging.INFO, "ding.entry"):
        policy, converged = serial_pipeline_bc(config, 0, "d.pkl", strict=True)
    result = json.loads(Path("e/result.json").read_text())
    assert (result["train_iter"], result["env_step"], converged) == (12 * 9, 0, False)
    values = [float(record.args[1]) for record in caplog.records if "validation" in record.getMessage()]
    assert len(values) == 12
    assert values[-1] >= 0.9 > values[0]
    again, _ = serial_pipeline_bc(config, 0, "d.pkl")
    weights = policy.learn_mode.state_dict()["model"]
    assert all(torch.equal(value, again.learn_mode.state_dict()["model"][key]) for key, value in weights.items())


@pytest.mark.parametrize("kind", ["hdf5", "columns"])
def test_other_kinds_of_data_sets(config, kind):
    if kind == "hdf5":
        pytest.importorskip("h5py")
    offline_data_save_type(rows(), "d.pkl", kind)
    path = str(next(path for path in Path().iterdir() if path.name.startswith("d")))
    config[0].policy.collect.update(data_type=kind, data_path=path)
    _, converged = serial_pipeline_bc(config, max_iter=5)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] == 5
    assert converged


def test_one_continuous_action(config):
    data = [{"obs": row["obs"][:3], "action": row["obs"][2:3].tanh()} for row in rows()]
    offline_data_save_type(data, "d.pkl", "naive")
    main, _ = config
    main.env.update(env_id="Pendulum-v1", stop_value=0, act_scale=True)
    main.policy.update(continuous=True, loss_type="mse_loss")
    main.policy.model = {"obs_shape": 3, "action_shape": 1, "action_space": "regression"}
    main.policy.learn.update(train_epoch=15, optimizer="Adam", learning_rate=0.01)
    policy, _ = serial_pipeline_bc(config, 0, "d.pkl")
    chosen = policy.eval_mode.forward({0: torch.tensor([0.0, 0.0, 1.0]), 1: torch.tensor([0.0, 0.0, -1.0])})
    assert chosen[0]["action"].shape == (1,)
    assert chosen[0]["action"] > 0.3
    assert chosen[1]["action"] < -0.3


def test_a_policy_of_a_user_needs_one_name(config):
    class OwnCloning(BehaviourCloningPolicy):
        pass

    POLICY_REGISTRY.register("own_cloning")(OwnCloning)
    try:
        offline_data_save_type(rows(), "d.pkl", "naive")
        config[1].policy.type = "own_cloning"
        policy, converged = serial_pipeline_bc(config, 0, "d.pkl", max_iter=2)
        assert type(policy) is OwnCloning
        assert converged
    finally:
        POLICY_REGISTRY.pop("own_cloning")


def test_from_the_command_line(config):
    offline_data_save_type(rows(), "d.pkl", "naive")
    words = ["-m", "serial_bc", "-c", str(CONFIG_FILE), "--data-path", "d.pkl", "--train-iter", "3", "--exp-name", "e"]
    result = CliRunner().invoke(cli, [*words, "--quiet"])
    assert result.exit_code == 0, result.output
    assert json.loads(Path("e/result.json").read_text())["train_iter"] == 3


def test_mistakes(config):
    main, _ = config
    del main.policy.collect["data_path"]
    with pytest.raises(ConfigValueError, match="no data set: give data_path"):
        serial_pipeline_bc(config)
    offline_data_save_type(rows(num_actions=3), "d.pkl", "naive")
    with pytest.raises(DatasetError, match="action"):
        serial_pipeline_bc(config, 0, "d.pkl")
    del main.policy.learn["train_epoch"]
    with pytest.raises(ConfigValueError, match=r"policy\.learn\.train_epoch must be"):
        serial_pipeline_bc(config, 0, "d.pkl")
