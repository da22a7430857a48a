"""Learning online beside a data set: what a batch holds, exact resume, wrong configs, the command line."""

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from easydict import EasyDict

from ding.config import ConfigValueError, UnknownKeyError
from ding.data import columns_save
from ding.entry import serial_pipeline, serial_pipeline_finetune, serial_pipeline_offline
from ding.entry.cli import cli
from ding.model import EnsembleQAC
from ding.utils.data import naive_save

ROWS = 11
CONFIG = {
    "exp_name": "finetune",
    "env": {
        "env_id": "Pendulum-v1", "act_scale": True, "collector_env_num": 1, "evaluator_env_num": 1,
        "n_evaluator_episode": 0, "stop_value": 1e9,
    },
    "policy": {
        "random_collect_size": 0,
        "model": {"obs_shape": 3, "action_shape": 1, "actor_head_hidden_size": 8, "critic_head_hidden_size": 8},
        "learn": {"batch_size": 6, "update_per_collect": 2, "offline_train_iter": 3},
        "collect": {"data_type": "columns", "data_path": "data", "n_sample": 2},
        "other": {"replay_buffer": {"replay_buffer_size": 100}},
    },
}  # fmt: skip
CREATE = {"env": {"type": "gymnasium"}, "env_manager": {"type": "base"}, "policy": {"type": "rlpd"}}
drawn: list[np.ndarray] = []


class Looking(EnsembleQAC):
    """Notes the first numbers of the observations that its critics learn from."""

    def compute_critic(self, inputs):
        if torch.is_grad_enabled():
            drawn.append(inputs["obs"][:, 0].numpy().copy())
        return super().compute_critic(inputs)


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns_save(columns(), "data")
    drawn.clear()


def columns() -> dict[str, np.ndarray]:
    """Rows whose observations begin with 10, 11, ..., those of the env with at most 1."""
    obs = np.random.default_rng(0).normal(size=(ROWS + 1, 3)).astype(np.float32)
    obs[:, 0] = 10 + np.arange(ROWS + 1)
    return {
        "obs": obs[:-1],
        "next_obs": obs[1:],
        "action": np.linspace(-1, 1, ROWS, dtype=np.float32)[:, None],
        "reward": np.ones((ROWS, 1), np.float32),
        "done": np.zeros(ROWS, bool),
    }


def config(policy: str = "rlpd", **learn) -> tuple[EasyDict, EasyDict]:
    main, create = EasyDict(deepcopy(CONFIG)), EasyDict(deepcopy(CREATE))
    main.policy.learn.update(learn)
    create.policy.type = policy
    if policy == "rlpd":
        main.policy.model.ensemble_num = 2
    return main, create


def test_half_of_each_batch_are_rows_of_the_data_set_once_the_agent_collects():
    model = {**config()[0].policy.model, "norm_type": "LN"}
    serial_pipeline_finetune(config(), seed=0, model=Looking(**model), max_train_iter=15)
    alone, mixed = drawn[:3], drawn[3:]
    assert [len(batch) for batch in alone] == [6, 5, 6]
    assert sorted(np.concatenate(alone[:2])) == list(range(10, 10 + ROWS))
    assert {len(batch) for batch in mixed} == {6}
    assert all((batch[:3] <= 1).all() and (batch[3:] >= 10).all() for batch in mixed)
    # Three batches of three rows are an epoch.
    epochs = [np.concatenate([batch[3:] for batch in mixed[at : at + 3]]) for at in range(0, 12, 3)]
    assert all(len(set(epoch)) == 9 for epoch in epochs)
    assert json.loads(Path("finetune/result.json").read_text())["env_step"] == 14


def test_joined_updates_learn_from_the_same_batches():
    """Four updates in one call: of other rows or samples than the single ones they would give other weights."""
    settings = [config("rlpd", update_per_collect=4, actor_update_freq=1, compile=way) for way in (False, "record")]
    single, joined = (serial_pipeline_finetune(one, seed=0, max_train_iter=11) for one in settings)
    assert joined.learn_mode.get_attribute("updates_per_call") > 1
    expected, found = (one.learn_mode.state_dict()["model"] for one in (single, joined))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("policy", ["rlpd", "rebrac", "cal_ql", "xql"])
@pytest.mark.parametrize(("saved_at", "end"), [(2, 5), (7, 11)])
def test_a_run_goes_on_from_a_saved_state_exactly(policy, saved_at, end):
    def setting(**learner):
        resumes = bool(learner)
        learner["keep_last"] = 9
        learn = {"run_state_freq": saved_at, "update_per_collect": 1, "resume_training": resumes, "learner": learner}
        return config(policy, **learn)

    whole = serial_pipeline_finetune(setting(), seed=0, max_train_iter=end)
    (saved,) = Path().glob(f"finetune*/ckpt/iteration_{saved_at}.pth.tar")
    again = setting(hook={"load_ckpt_before_run": str(saved)})
    resumed = serial_pipeline_finetune(again, seed=0, max_train_iter=end)
    expected, found = (one.learn_mode.state_dict()["model"] for one in (whole, resumed))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_random_samples_come_first_only_without_a_start_from_data():
    for alone, envsteps in ((0, 22), (1, 12)):
        main, create = config(offline_train_iter=alone)
        main.policy.random_collect_size = 10
        main.policy.transition_with_policy_data = False
        serial_pipeline_finetune((main, create), seed=0, max_env_step=12 + 10 * (alone == 0))
        folder = sorted(Path().glob("finetune*"), key=lambda path: path.stat().st_mtime)[-1]
        assert json.loads((folder / "result.json").read_text())["env_step"] == envsteps


def test_wrong_settings_name_the_key():
    for learn, text in (
        ({"offline_share": 1.0}, "offline_share must be a share of a batch, at least 0 and less than 1, got 1.0"),
        ({"offline_train_iter": -1}, "offline_train_iter must be an int of at least 0, got -1"),
        ({"batch_size": 40}, "cannot draw batches of 20 rows for 1 ranks from a data set of 11 rows"),
    ):
        with pytest.raises(ConfigValueError, match=text):
            serial_pipeline_finetune(config(**learn), seed=0)
    main, create = config("iql")
    main.policy.priority = True
    with pytest.raises(ConfigValueError, match="rows of a data set have no priorities"):
        serial_pipeline_finetune((main, create), seed=0)


@pytest.mark.parametrize("pipeline", [serial_pipeline, serial_pipeline_offline])
def test_other_pipelines_say_that_they_do_not_read_its_keys(pipeline, caplog):
    text = "policy.learn.offline_train_iter: this pipeline does not read it; ding -m serial_finetune does"
    with pytest.raises(UnknownKeyError, match=text):
        pipeline(config("iql"), seed=0, max_train_iter=1, strict=True)
    pipeline(config("iql"), seed=0, max_train_iter=1)
    assert text in caplog.text


def test_fields_of_later_steps_need_columns():
    rows = [{key: torch.as_tensor(value[i]) for key, value in columns().items()} for i in range(ROWS)]
    naive_save(rows, "rows")
    main, create = config("rebrac")
    main.policy.collect.update(data_type="naive", data_path="rows")
    with pytest.raises(ConfigValueError, match="rebrac needs a data set of columns"):
        serial_pipeline_offline((main, create), seed=0, max_train_iter=1)


def test_the_command_line_reaches_it():
    text = f"from easydict import EasyDict\nmain_config = EasyDict({dict(CONFIG)!r})\n"
    Path("c.py").write_text(text + f"create_config = EasyDict({CREATE!r})\n")
    result = CliRunner().invoke(cli, ["-m", "serial_finetune", "-c", "c.py", "--env-step", "4", "-s", "1"])
    assert result.exit_code == 0, result.output
    assert json.loads(Path("finetune/result.json").read_text())["train_iter"] > 3
