"""The pipeline of TD3-VAE: its schedule, and that a resumed run is the run that continued."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import ding
from ding.config import ConfigValueError, read_config
from ding.entry import serial_pipeline_td3_vae
from ding.entry.cli import cli
from ding.worker import BaseLearner
from tests.entry.serial.test_serial_exact_resume import digest_of, newest_good_snapshot, resumed_config

CONFIG_FILE = Path(ding.__file__).parents[1] / "configs" / "pendulum" / "pendulum_td3_vae_config.py"


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(exp_name, **learn):
    main, create = read_config(CONFIG_FILE)
    main.exp_name = exp_name
    main.env.update(evaluator_env_num=1, n_evaluator_episode=1, stop_value=1e9)
    main.policy.update(random_collect_size=64)
    main.policy.model.update(actor_head_hidden_size=8, critic_head_hidden_size=8)
    schedule = {"warm_up_update": 2, "rl_vae_update_circle": 2, "update_per_collect_rl": 2, "update_per_collect_vae": 1}
    main.policy.learn.update(batch_size=16, **schedule, **learn)
    main.policy.collect.n_sample = 16
    main.policy.eval.evaluator.eval_freq = 1000
    return main, create


def test_the_phases_take_turns(monkeypatch):
    seen, train = [], BaseLearner.train

    def noted(self, data, *args, **kwargs):
        columns = data.columns
        recent = sum(columns["latent_action"][:, 0] != 999.0)
        seen.append((bool(columns["warm_up"][0]), bool(columns.get("vae_phase", [False])[0]), int(recent)))
        return train(self, data, *args, **kwargs)

    monkeypatch.setattr(BaseLearner, "train", noted)
    serial_pipeline_td3_vae(config("e"), seed=0, max_env_step=64 + 4 * 16)
    warm_up, rl, vae = (True, False, 0), (False, False, 16), (False, True, 16)
    assert seen == [warm_up, warm_up, rl, rl, rl, rl, vae, rl, rl, rl, rl, vae]
    assert json.loads(Path("e/result.json").read_text())["train_iter"] == 12


def test_a_resumed_run_is_the_run_that_went_on():
    serial_pipeline_td3_vae(config("whole", run_state_freq=3), seed=0, max_env_step=64 + 6 * 16)
    serial_pipeline_td3_vae(config("part", run_state_freq=3), seed=0, max_env_step=64 + 3 * 16)
    again = resumed_config(config("part", run_state_freq=3, resume_training=True), "part")
    serial_pipeline_td3_vae(again, seed=0, max_env_step=64 + 6 * 16)
    left, right = newest_good_snapshot("whole"), newest_good_snapshot("part")
    assert left.name == right.name
    assert digest_of(left, False) == digest_of(right, False)


def test_the_command_line_and_wrong_configs():
    main, create = config("e")
    text = f"main_config = {dict(main)!r}\ncreate_config = {dict(create)!r}\n"
    Path("config.py").write_text(text.replace("'td3_vae'", "'td3-vae'"))
    words = ["-m", "serial_td3_vae", "-c", "config.py", "--env-step", "80", "--quiet"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    with pytest.raises(ConfigValueError, match="td3_vae"):
        serial_pipeline_td3_vae((main, {**create, "policy": {"type": "sac"}}))
    main.policy.random_collect_size = 4
    with pytest.raises(ConfigValueError, match="random_collect_size=4"):
        serial_pipeline_td3_vae((main, create))
