"""An agent trains in the loop of the pipelines: the same folder, lock, seeds and snapshots, and the same result."""

import json
import logging
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from click.testing import CliRunner

import ding
from ding.bonus import PPOF, Agent, DQNAgent, ExperimentNotFoundError, PPOAgent
from ding.config import ExperimentDirError, read_config
from ding.config.experiment_dir import ExperimentLock
from ding.entry import cli, serial_pipeline
from ding.entry.view.callbacks import RunCallback
from ding.utils.file_helper import read_file

ENV = {"collector_env_num": 2, "evaluator_env_num": 2, "n_evaluator_episode": 2, "stop_value": 1000}
HOOKS = {"log_show_after_iter": 10, "save_ckpt_after_iter": 50}
KEYS = {
    "DQN": {"encoder_hidden_size_list": [8, 64], "eval_freq": 20},
    "PPO": {"encoder_hidden_size_list": [8, 64], "n_sample": 32, "eval_freq": 20},
    "PPOF": {"encoder_hidden_size_list": [8, 64], "n_sample": 32, "eval_freq": 20},
}
AGENTS = {"DQN": DQNAgent, "PPO": PPOAgent, "PPOF": PPOF}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def config(name: str) -> dict:
    keys = dict(KEYS[name])
    eval_freq, sizes = keys.pop("eval_freq"), keys.pop("encoder_hidden_size_list")
    policy = {"model": {"encoder_hidden_size_list": sizes}, "eval": {"evaluator": {"eval_freq": eval_freq}}}
    policy |= keys if name == "PPOF" else {"collect": keys}
    return {"env": ENV, "policy": policy}


def by_agent(name: str, exp_name: str, **policy: object) -> Agent:
    cfg = config(name)
    cfg["policy"] |= policy
    return AGENTS[name]("CartPole-v1", seed=3, exp_name=exp_name, cfg=cfg)


def train(agent: Agent, step: int = 150) -> None:
    agent.train(step=step, n_iter_log_show=HOOKS["log_show_after_iter"], n_iter_save_ckpt=HOOKS["save_ckpt_after_iter"])


def names_in(folder: str) -> list[str]:
    # The event files have the time and the machine in their names.
    paths = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))
    return [re.sub(r"tfevents.*", "tfevents", path) for path in paths]


def states(folder: str) -> dict[str, torch.Tensor]:
    found = {}
    for path in sorted(Path(folder, "ckpt").glob("*.pth.tar")):
        found |= {f"{path.name}: {key}": value for key, value in read_file(str(path))["model"].items()}
    return found


def assert_equal_states(first: str, second: str) -> None:
    one, other = states(first), states(second)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def text_of(caplog, exp_name: str) -> list[str]:
    """The lines that a run showed, without its name, rates and times."""
    lines = [record.getMessage() for record in caplog.records if record.name == "ding.entry"]
    caplog.clear()
    return [re.sub(r"in \d+\.\d s|\(\d+/s\)|\d\d:\d\d", "-", line).replace(exp_name, "EXP") for line in lines]


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_and_ding_train_leave_the_same_and_show_the_same(name, caplog) -> None:
    caplog.set_level(logging.INFO, "ding.entry")
    train(by_agent(name, "one"))
    shown = text_of(caplog, "one")
    ding.train(name.lower(), "CartPole-v1", 3, exp_name="two", max_env_step=150, **ENV, **KEYS[name], **HOOKS)
    assert names_in("one") == names_in("two")
    assert {"status.json", "result.json", "total_config.py", "ckpt/ckpt_best.pth.tar"} < set(names_in("one"))
    assert_equal_states("one", "two")
    results = [json.loads(Path(folder, "result.json").read_text()) for folder in ("one", "two")]
    assert [result.pop("finish_time") is not None for result in results] == [True, True]
    assert results[0] == results[1]
    assert results[0]["last_evaluation"]["episodes"] == 2
    assert shown == text_of(caplog, "two")
    assert shown[-1].startswith("EXP: reached its limit of 150 env steps: last")
    one, two = (read_config(f"{folder}/total_config.py") for folder in ("one", "two"))
    assert one[0].pop("exp_name") != two[0].pop("exp_name")
    assert one == two


class Bold(RunCallback):
    """Trains an agent in the folder in which a run lasts."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.error = agent, None

    def on_evaluation(self, status):
        try:
            self.agent.train(step=10)
        except ExperimentDirError as error:
            self.error = error
        return False


def test_two_runs_in_one_folder_conflict_on_the_lock() -> None:
    agent = by_agent("DQN", "run")
    train(agent, 50)
    main, create = read_config("run/total_config.py")
    main.policy.learn.resume_training = True
    bold = Bold(agent)
    serial_pipeline((main, create), seed=3, max_env_step=200, callbacks=[bold])
    assert re.search(r"the experiment folder run is in use: the run of process \d+ on .*", str(bold.error))
    with ExperimentLock() as lock:
        lock.take("run")
        with pytest.raises(ExperimentDirError, match="the experiment folder run is in use"):
            agent.train(step=10)
    agent.train(step=10)


@pytest.mark.parametrize(
    ("name", "mode", "freq"), [("DQN", "", 25), ("PPO", "_onpolicy", 4), ("PPOF", "_onpolicy", 20)]
)
def test_the_command_line_resumes_an_agents_run_exactly(name, mode, freq) -> None:
    for exp_name, env_step in (("whole", 200), ("half", 140)):
        train(by_agent(name, exp_name, learn={"run_state_freq": freq}), env_step)
    result = CliRunner().invoke(cli, ["-m", f"serial{mode}", "--resume", "half", "--env-step", "200"])
    assert result.exit_code == 0, result.output
    last = max(int(one) for one in re.findall(r"iteration_(\d+)\.pth", " ".join(names_in("whole"))))
    first, second = (read_file(f"{folder}/ckpt/iteration_{last}.pth.tar")["model"] for folder in ("whole", "half"))
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", AGENTS)
def test_training_in_parts_is_training_at_once(name) -> None:
    whole, agent = by_agent(name, "whole"), by_agent(name, "parts")
    train(whole, 128)
    train(agent, 64)
    # What happens in between does not matter.
    torch.rand(5)
    train(by_agent(name, "other"), 40)
    agent.deploy(seed=4)
    train(agent, 128 - agent.env_step)
    assert (agent.env_step, agent.train_iter) == (whole.env_step, whole.train_iter)
    last = f"ckpt/iteration_{agent.train_iter}.pth.tar"
    first, second = (read_file(f"{folder}/{last}")["model"] for folder in ("whole", "parts"))
    assert all(torch.equal(first[key], second[key]) for key in first)


class Walk(gymnasium.Env):
    """An env without an id: five places, of which the last is the goal."""

    observation_space = gymnasium.spaces.Box(0, 4, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._steps = int(self.np_random.integers(4)), 0
        return np.array([self._place], np.float32), {}

    def step(self, action):
        self._place, self._steps = max(0, self._place + 2 * int(action) - 1), self._steps + 1
        return np.array([self._place], np.float32), -0.1, self._place == 4, self._steps == 9, {}


def test_an_agent_resumes_a_run_of_another_process_exactly() -> None:
    """Here, its env is no part of the config, so that the command line cannot."""

    def agent(exp_name: str) -> DQNAgent:
        learn = {"run_state_freq": 25, "learner": {"keep_last": 3}}
        return DQNAgent(env=Walk, exp_name=exp_name, cfg={"env": ENV, "policy": {"learn": learn}})

    agent("whole").train(step=200)
    agent("half").train(step=140)
    # Its env cannot be saved: the run that wrote a snapshot goes on with new episodes, as one that is resumed there.
    last, before = sorted(Path("half/ckpt").glob("snapshot_*"), reverse=True)
    ended = agent("half").resume()
    assert (f"snapshot_{ended.train_iter}", ended.env_step >= 140) == (last.name, True)
    for found in (agent("half").resume(str(before)), ding.load("half", env=Walk).resume(str(before))):
        assert (f"snapshot_{found.train_iter}", found.exp_name) == (before.name, "half")
        assert 0 < found.env_step < 140
        assert found.cfg.policy.learn.learner.keep_last == 3
    found.train(step=200 - found.env_step)
    last = f"ckpt/iteration_{found.train_iter}.pth.tar"
    first, second = (read_file(f"{folder}/{last}")["model"] for folder in ("whole", "half"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert Path("half/resumed_config.py").is_file()


def test_without_a_snapshot_there_is_nothing_to_resume() -> None:
    agent = DQNAgent(env=Walk, exp_name="run", cfg={"env": ENV, "policy": {"learn": {"run_state_every_s": 0}}})
    with pytest.raises(ExperimentNotFoundError, match=r"run holds no snapshot .*run_state_every_s"):
        agent.resume()
    train(agent, 20)
    with pytest.raises(ExperimentNotFoundError, match="ckpt_best"):
        agent.resume("run/ckpt/ckpt_best.pth.tar")
