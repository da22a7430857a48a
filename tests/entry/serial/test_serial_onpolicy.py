"""The on-policy pipeline: what it trains on, exact seeds, exact resume, and how it is reached."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.entry import serial_pipeline, serial_pipeline_onpolicy
from ding.entry.cli import cli
from ding.entry.serial.run_state import newest_good_snapshot

CONFIG = {
    "exp_name": "onpolicy",
    "env": {
        "env_id": "CartPole-v1",
        "collector_env_num": 4,
        "evaluator_env_num": 2,
        "n_evaluator_episode": 2,
        "stop_value": 1e9,
    },
    "policy": {
        "model": {
            "obs_shape": 4,
            "action_shape": 2,
            "encoder_hidden_size_list": [16, 16],
            "actor_head_hidden_size": 16,
            "critic_head_hidden_size": 16,
        },
        "learn": {"epoch_per_collect": 2, "batch_size": 32},
        "collect": {"n_sample": 64},
        "eval": {"evaluator": {"eval_freq": 15}},
    },
}
CREATE = {
    "env": {"type": "gymnasium", "import_names": ["ding.envs"]},
    "env_manager": {"type": "base"},
    "policy": {"type": "ppo"},
}
EPISODES = {"model": {"obs_shape": 4, "action_shape": 2}, "learn": {"batch_size": 32}, "collect": {"n_episode": 4}}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(exp_name: str, **learn) -> tuple[EasyDict, EasyDict]:
    main = EasyDict(deepcopy(CONFIG))
    main.exp_name = exp_name
    main.policy.learn.update(learn)
    return main, EasyDict(deepcopy(CREATE))


def state(policy) -> dict:
    return policy.learn_mode.state_dict()


def same(left, right) -> bool:
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right


def test_a_pass_trains_once_on_what_it_collected() -> None:
    serial_pipeline_onpolicy(config("e"), max_env_step=640)
    result = json.loads(Path("e/result.json").read_text())
    assert result["env_step"] == 640
    # Ten passes of two epochs of two minibatches.
    assert result["train_iter"] == 10 * 2 * 2


def test_the_same_seed_gives_the_same_run() -> None:
    runs = [state(serial_pipeline_onpolicy(config("e"), seed=seed, max_env_step=320)) for seed in (3, 3, 4)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


@pytest.mark.parametrize("schedule", [None, {"epoch_num": 10, "min_lr_lambda": 0.1}])
def test_half_and_half_is_the_whole(schedule) -> None:
    learn = {"run_state_freq": 20, "lr_scheduler": schedule}
    whole = serial_pipeline_onpolicy(config("whole", **learn), seed=1, max_train_iter=40)
    serial_pipeline_onpolicy(config("parts", **learn), seed=1, max_train_iter=20)
    main, create = config("parts", resume_training=True, **learn)
    main.policy.learn.learner = EasyDict(hook={"load_ckpt_before_run": str(newest_good_snapshot("parts"))})
    resumed = serial_pipeline_onpolicy((main, create), seed=1, max_train_iter=40)
    assert same(state(whole), state(resumed))
    assert "value_norm" in state(whole)


def test_half_and_half_is_the_whole_with_several_buffers() -> None:
    def run(exp_name: str, max_train_iter: int, **learn):
        main, create = config(exp_name)
        # An auxiliary phase ends just where the states are saved: the samples kept for the next one are not.
        main.policy.learn = EasyDict(update_per_collect=5, batch_size=16, run_state_freq=10, aux_freq=5, **learn)
        create.policy.type = "ppg_offpolicy"
        return state(serial_pipeline((main, create), seed=1, max_train_iter=max_train_iter))

    whole = run("whole", 20)
    run("parts", 10)
    hook = {"load_ckpt_before_run": str(newest_good_snapshot("parts"))}
    assert same(whole, run("parts", 20, resume_training=True, learner={"hook": hook}))


@pytest.mark.parametrize("name", ["pg", "ppo_pg"])
def test_policies_without_a_critic_learn_from_whole_episodes(name) -> None:
    main, create = config("e")
    main.policy = EasyDict({**EPISODES, "eval": main.policy.eval})
    create.policy.type, create.collector = name, EasyDict(type="episode", get_train_sample=True)
    serial_pipeline_onpolicy((main, create), max_train_iter=5)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] >= 5


def test_an_on_policy_algorithm_needs_this_pipeline() -> None:
    with pytest.raises(ConfigValueError, match="'ppo' is on-policy: run it with serial_pipeline_onpolicy"):
        serial_pipeline(config("e"))


def test_the_mode_of_ppg() -> None:
    main = deepcopy(CONFIG)
    main["policy"]["learn"] = {"aux_freq": 1, "batch_size": 32}
    Path("config.py").write_text(f"main_config = {main!r}\ncreate_config = {CREATE | {'policy': {'type': 'ppg'}}!r}\n")
    options = ["-m", "serial_onpolicy_ppg", "-c", "config.py", "--env-step", "128", "--quiet", "--exp-name", "cli"]
    done = CliRunner().invoke(cli, options)
    assert done.exit_code == 0, done.output
    assert json.loads(Path("cli/result.json").read_text())["train_iter"] == 2


def test_the_mode_of_the_command_line() -> None:
    text = f"main_config = {CONFIG!r}\ncreate_config = {CREATE!r}\n"
    Path("config.py").write_text(text)
    options = ["-m", "serial_onpolicy", "-c", "config.py", "--env-step", "128", "--quiet", "--exp-name", "cli"]
    done = CliRunner().invoke(cli, options)
    assert done.exit_code == 0, done.output
    assert json.loads(Path("cli/result.json").read_text())["env_step"] == 128
