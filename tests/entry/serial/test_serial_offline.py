"""Learning from a data set: what is drawn when, exact resume, wrong data, and how the pipeline is reached."""

import functools
import json
import operator
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data import columns_save
from ding.entry import eval as evaluate
from ding.entry import serial_pipeline_offline
from ding.entry.cli import cli
from ding.model import QRDQN
from ding.policy import DiscreteCQLPolicy
from ding.utils import POLICY_REGISTRY
from ding.utils.checkpoint import read_manifest
from ding.utils.data import DatasetFieldError, DatasetFileError, DatasetValueError, naive_save

ROWS = 10
CONFIG = {
    "exp_name": "offline",
    "env": {"env_id": "CartPole-v1", "evaluator_env_num": 1, "n_evaluator_episode": 1, "stop_value": 1e9},
    "policy": {
        "model": {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8], "num_quantiles": 4},
        "learn": {"batch_size": 4, "train_epoch": 2, "learning_rate": 0.001},
        "collect": {"data_type": "columns", "data_path": "data", "n_sample": 1},
        "eval": {"evaluator": {"eval_freq": 100}},
    },
}
CREATE = {
    "env": {"type": "gymnasium", "import_names": ["ding.envs"]},
    "env_manager": {"type": "base"},
    "policy": {"type": "discrete_cql"},
}
drawn: list[list[float]] = []


@POLICY_REGISTRY.register("recording_cql")
class RecordingPolicy(DiscreteCQLPolicy):
    """Notes which rows it learns from: their first observation is their number."""

    def _forward_learn(self, data):
        drawn.append([float(row["obs"][0]) for row in data])
        return super()._forward_learn(data)


POLICY_REGISTRY.register("recording_cql_command", RecordingPolicy)


def columns(rows: int = ROWS) -> dict[str, np.ndarray]:
    obs = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    obs[:, 0] = np.arange(rows)
    return {
        "obs": obs,
        "next_obs": obs + 1,
        "action": np.arange(rows).reshape(rows, 1) % 2,
        "reward": np.ones((rows, 1), np.float32),
        "done": np.arange(rows) % 5 == 4,
    }


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns_save(columns(), "data")
    drawn.clear()


def config(policy: str = "discrete_cql", **learn) -> tuple[EasyDict, EasyDict]:
    main, create = EasyDict(deepcopy(CONFIG)), EasyDict(deepcopy(CREATE))
    main.policy.learn.update(learn)
    create.policy.type = policy
    return main, create


def test_an_epoch_draws_each_row_once_in_an_order_of_its_own():
    policy, solved = serial_pipeline_offline(config("recording_cql"), seed=0)
    assert [len(batch) for batch in drawn] == [4, 4, 2] * 2
    first, second = (functools.reduce(operator.iadd, drawn[at : at + 3], []) for at in (0, 3))
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second
    result = json.loads(Path("offline/result.json").read_text())
    assert (result["train_iter"], result["env_step"], solved) == (6, 0, False)
    assert policy.learn_mode.get_attribute("batch_size") == 4


def test_without_a_number_of_epochs_the_train_iterations_end_a_run():
    main, create = config("recording_cql")
    del main.policy.learn["train_epoch"]
    serial_pipeline_offline((main, create), seed=0, max_train_iter=5)
    assert [len(batch) for batch in drawn] == [4, 4, 2, 4, 4]
    with pytest.raises(ConfigValueError, match="number of epochs, got None; or give max_train_iter"):
        serial_pipeline_offline((main, create), seed=0)


def test_a_list_of_transitions_gives_the_same_as_columns():
    def weights(setting):
        policy, _ = serial_pipeline_offline(setting, seed=0)
        return policy.learn_mode.state_dict()["model"]

    main, create = config()
    expected = weights((main, create))
    rows = [{key: torch.as_tensor(value[i]) for key, value in columns().items()} for i in range(ROWS)]
    naive_save(rows, "rows")
    main.policy.collect.update(data_type="naive", data_path="rows")
    found = weights((main, create))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_run_goes_on_from_a_checkpoint_exactly():
    whole, _ = serial_pipeline_offline(config("recording_cql"), seed=0)
    batches = list(drawn)
    drawn.clear()
    serial_pipeline_offline(config("recording_cql"), seed=0, max_train_iter=4)
    checkpoints = list(Path().glob("offline*/ckpt/iteration_4.pth.tar"))
    resumed, _ = serial_pipeline_offline(
        config(
            "recording_cql",
            resume_training=True,
            learner={"hook": {"load_ckpt_before_run": str(checkpoints[0])}},
        ),
        seed=0,
    )
    assert drawn == batches
    expected, found = (policy.learn_mode.state_dict()["model"] for policy in (whole, resumed))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_standardised_data_set_is_evaluated_and_loaded_with_its_statistics():
    seen = []

    class Seeing(QRDQN):
        def forward(self, obs):
            if len(obs) == 1:  # of the one env that evaluates
                seen.append(obs[0].numpy())
            return super().forward(obs)

    def setting(**norm):
        main, create = config()
        main.env.norm_obs = dict(use_norm=True, **norm)
        model = main.policy.model
        return (main, create), Seeing(**model)

    configs, model = setting(offline_stats=dict(use_offline_stats=True))
    policy, _ = serial_pipeline_offline(configs, seed=0, model=model)
    obs = columns()["obs"]
    mean, std = obs.mean(0), obs.std(0) + 1e-3
    state = policy.learn_mode.state_dict()["normalization"]
    np.testing.assert_allclose(state["obs"]["mean"], mean, rtol=1e-4, atol=1e-6)
    # CartPole starts near 0.
    assert np.abs(seen[0] * std + mean).max() < 0.06
    seen.clear()
    configs, model = setting()
    path = str(next(Path().glob("offline*/ckpt/ckpt_best.pth.tar")))
    evaluate(configs, seed=0, load_path=path, model=model)
    assert np.abs(seen[0] * std + mean).max() < 0.06


def test_a_run_goes_on_from_a_saved_state_exactly():
    """The noise of the targets comes from the global generators, which the state holds."""
    made = {**columns(), "action": np.linspace(-1, 1, ROWS, dtype=np.float32)[:, None]}
    columns_save({**made, "obs": made["obs"][:, :3], "next_obs": made["next_obs"][:, :3]}, "data")

    def setting(**learn):
        main, create = config("td3_bc", run_state_freq=3, **learn)
        main.env.update(env_id="Pendulum-v1", act_scale=True)
        main.policy.model = dict(
            obs_shape=3, action_shape=1, actor_head_hidden_size=8, critic_head_hidden_size=8, type="continuous_qac",
            twin_critic=True, action_space="regression",
        )  # fmt: skip
        main.policy.eval.evaluator.eval_freq = 10**9
        return main, create

    whole, _ = serial_pipeline_offline(setting(), seed=0)
    (saved,) = Path().glob("offline*/ckpt/iteration_3.pth.tar")
    # There are no episodes that would begin anew.
    assert read_manifest(saved.with_name("snapshot_3")).notes["episodes"] == "go on"
    resumed, _ = serial_pipeline_offline(
        setting(resume_training=True, learner={"hook": {"load_ckpt_before_run": str(saved)}}), seed=0
    )
    expected, found = (policy.learn_mode.state_dict()["model"] for policy in (whole, resumed))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_the_command_line_has_the_mode():
    main, create = config()
    Path("c.py").write_text(
        f"from easydict import EasyDict\nmain_config = EasyDict({main!r})\ncreate_config = EasyDict({create!r})\n"
    )
    result = CliRunner().invoke(cli, ["-m", "serial_offline", "-c", "c.py", "-s", "1", "--train-iter", "2"])
    assert result.exit_code == 0, result.output
    assert json.loads(Path("offline/result.json").read_text())["train_iter"] == 2
    Path("data").write_bytes(Path("data").read_bytes()[:-5])
    result = CliRunner().invoke(cli, ["-m", "serial_offline", "-c", "c.py"])
    assert result.exit_code != 0
    assert "data is truncated" in result.output


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"reward": None}, DatasetFieldError, "learns from the field 'reward', which the data set lacks"),
        (
            {"obs": np.zeros((ROWS, 3), np.float32)},
            DatasetFieldError,
            r"rows of 'obs' have the shape \(3,\), but .* is 4",
        ),
        ({"action": np.full((ROWS, 1), 2)}, DatasetFieldError, r"discrete actions are 2 to 2, .*action_shape is 2"),
        ({"action": np.zeros((ROWS, 1), np.float32)}, DatasetFieldError, r"continuous actions .* do not fit"),
        ({"reward": np.full((ROWS, 1), np.nan)}, DatasetValueError, "field 'reward' holds NaN or infinity in row 0"),
    ],
)
def test_a_wrong_data_set_is_named(change, error, message):
    changed = {key: value for key, value in {**columns(), **change}.items() if value is not None}
    columns_save(changed, "data")
    with pytest.raises(error, match=message):
        serial_pipeline_offline(config())


def test_a_broken_file_and_a_wrong_config_are_named():
    Path("data").write_bytes(b"x" * 100)
    with pytest.raises(DatasetFileError, match="not a safetensors file"):
        serial_pipeline_offline(config())
    with pytest.raises(ConfigValueError, match=r"policy\.learn\.train_epoch must be the number of epochs, got 0"):
        serial_pipeline_offline(config(train_epoch=0))
    columns_save(columns(0), "data")
    with pytest.raises(ConfigValueError, match="a data set of 0 rows"):
        serial_pipeline_offline(config())
