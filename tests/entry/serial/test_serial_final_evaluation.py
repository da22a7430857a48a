"""A run is judged by its last weights, too, and says how good they and the best ones are."""

import json
import os
import re
import signal

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from easydict import EasyDict

import ding
from ding.bonus import DQNAgent
from ding.bonus.quick.generated import generated_config
from ding.entry import serial_pipeline, serial_pipeline_onpolicy
from ding.entry.cli import cli
from ding.entry.view.callbacks import RunCallback
from ding.envs import DingEnvWrapper
from ding.parallel.launch.signals import RunInterrupted
from ding.utils.checkpoint import train_iter_of


class Counted(gymnasium.Env):
    """Each episode has one step; in an evaluation the returns are those of ``script``, one per evaluation."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    script = []
    num_episodes = 0

    def __init__(self, evaluates=False, render_mode=None):
        self._evaluates = evaluates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        reward = 0.0
        if self._evaluates:
            reward = Counted.script[min(Counted.num_episodes // 2, len(Counted.script) - 1)]
            Counted.num_episodes += 1
        return np.zeros(2, np.float32), reward, True, False, {}


gymnasium.register("Counted-v0", entry_point=Counted)


class Noted(RunCallback):
    def __init__(self, ends_at=None, kills_at=None):
        self.iters, self.ends_at, self.kills_at = [], ends_at, kills_at

    def on_evaluation(self, status):
        self.iters.append(status.train_iter)
        return None if self.ends_at is None else status.train_iter < self.ends_at

    def on_iteration(self, status):
        if self.kills_at is not None and status.train_iter >= self.kills_at:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Counted, "num_episodes", 0)


def configs(policy, returns, eval_freq=1000, n_episode=2):
    Counted.script = returns
    main = EasyDict(
        exp_name="run",
        env=dict(
            env_id="Counted-v0", collector_env_num=1, evaluator_env_num=1, n_evaluator_episode=n_episode, stop_value=99
        ),
        policy=dict(
            model=dict(obs_shape=2, action_shape=2),
            learn=dict(batch_size=4),
            collect=dict(n_sample=8),
            eval=dict(evaluator=dict(eval_freq=eval_freq)),
        ),
    )
    create = EasyDict(env=dict(type="gymnasium"), env_manager=dict(type="base"), policy=dict(type=policy))
    return main, create


def env_setting():
    def make(cfg):
        return DingEnvWrapper(None, {"env_id": "Counted-v0", "env_kwargs": {"evaluates": cfg["evaluates"]}})

    return make, [{"evaluates": False}], [{"evaluates": True}]


def run(policy="dqn", returns=(1.0, 5.0), callbacks=(), max_train_iter=6, **kwargs):
    main, create = configs(policy, list(returns), **kwargs)
    pipeline = serial_pipeline_onpolicy if policy == "ppo" else serial_pipeline
    pipeline((main, create), env_setting=env_setting(), max_train_iter=max_train_iter, callbacks=list(callbacks))
    with open("run/result.json", encoding="utf-8") as file:
        return json.load(file)


@pytest.mark.parametrize("policy", ["dqn", "ppo"])
def test_a_run_that_ends_before_its_next_evaluation_is_judged_by_its_last_weights(policy):
    noted = Noted()
    result = run(policy, callbacks=[noted])
    assert noted.iters == [0, result["train_iter"]]
    assert result["eval_value"] == 5.0
    assert train_iter_of("run/ckpt/ckpt_best.pth.tar") == result["train_iter"] > 0


def test_the_first_weights_are_the_best_where_no_later_ones_are_better():
    result = run(returns=[5.0, 1.0])
    assert (result["eval_value"], result["best_evaluation"]["mean"]) == (1.0, 5.0)
    assert result["best_evaluation"]["train_iter"] == 0
    assert train_iter_of("run/ckpt/ckpt_best.pth.tar") == 0


def test_weights_that_were_evaluated_are_not_evaluated_again():
    noted = Noted(ends_at=2)
    run(callbacks=[noted], eval_freq=2, max_train_iter=100)
    assert len(noted.iters) == len(set(noted.iters)) >= 2


def test_a_run_without_episodes_of_evaluations_has_none():
    noted = Noted()
    result = run(callbacks=[noted], n_episode=0)
    assert noted.iters == []
    assert result["eval_value"] is result["last_evaluation"] is None
    assert result["train_iter"] >= 6


def test_a_run_that_is_stopped_is_not_evaluated_at_its_end():
    noted = Noted(kills_at=3)
    with pytest.raises(RunInterrupted):
        run(callbacks=[noted], max_train_iter=100)
    assert noted.iters == [0]


def test_the_result_holds_mean_spread_and_number_of_episodes():
    result = run(returns=[3.0, 2.0], n_episode=4)
    # The four episodes of an evaluation get the returns of two entries.
    assert result["best_evaluation"] == {
        "mean": 2.5, "std": 0.5, "min": 2.0, "max": 3.0, "episodes": 4, "train_iter": 0
    }  # fmt: skip
    assert result["last_evaluation"]["mean"] == result["eval_value"] == 2.0
    with open("run/status.json", encoding="utf-8") as file:
        status = json.load(file)
    text = status["sentence"]
    assert "last evaluation: return 2.00 (std 0.00, 2.00 to 2.00 in 4 episodes, solved at 99) after" in text
    assert "best evaluation: return 2.50 (std 0.50, 2.00 to 3.00 in 4 episodes) after 0 train iterations" in text
    assert status["best_evaluation"] == result["best_evaluation"]


def test_the_agent_that_train_returns_is_the_best_of_all_evaluations():
    agent = ding.train("ppo", "CartPole-v1", max_env_step=600, seed=0)
    with open(f"{agent.exp_name}/result.json", encoding="utf-8") as file:
        result = json.load(file)
    best = result["best_evaluation"]
    assert best["train_iter"] > 0 or best["mean"] >= result["last_evaluation"]["mean"]
    assert train_iter_of(f"{agent.exp_name}/ckpt/ckpt_best.pth.tar") == best["train_iter"]
    found = agent.batch_evaluate(env_num=best["episodes"], n_evaluator_episode=best["episodes"])
    assert found.eval_value == pytest.approx(best["mean"])


def test_an_agent_is_evaluated_once_more_at_the_end_of_its_training_and_keeps_the_best_of_all():
    agent = DQNAgent("CartPole-v1", seed=0, exp_name="agent")
    agent.train(step=300)
    with open("agent/result.json", encoding="utf-8") as file:
        result = json.load(file)
    assert result["last_evaluation"]["train_iter"] == agent.train_iter > 0
    first_best = agent.best_eval_value
    assert first_best == result["best_evaluation"]["mean"]
    agent.train(step=100)
    assert agent.best_eval_value >= first_best
    found = agent.best.batch_evaluate(env_num=5, n_evaluator_episode=5)
    assert found.eval_value == pytest.approx(agent.best_eval_value)


@pytest.mark.parametrize(("episodes", "expected"), [("12", 12), ("2", 2)])
def test_the_command_line_says_how_many_episodes_are_evaluated(episodes, expected):
    serial_pipeline(generated_config("dqn", "CartPole-v1", "run"), max_env_step=100)
    answer = CliRunner().invoke(cli, ["-m", "eval", "run", "--episodes", episodes])
    assert answer.exit_code == 0, answer.output
    assert re.search(
        rf"seed 0: return [0-9.]+ \(std [0-9.]+, [0-9.]+ to [0-9.]+ in {expected} episodes\)", answer.output
    )


@pytest.mark.parametrize("policy", ["dqn", "c51", "ppo", "a2c"])
@pytest.mark.parametrize(("env_id", "stop_value"), [("CartPole-v1", 475), ("CartPole-v0", 195)])
def test_cartpole_is_solved_at_the_return_of_its_version(policy, env_id, stop_value):
    assert generated_config(policy, env_id)[0].env.stop_value == stop_value
