"""`ding.train`, `ding new config`, `ding export`: from an algorithm and an env to a file, without a config by hand."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import ding
from ding.bonus import AgentConfigError, DQNAgent, PPOAgent, SACAgent, export, generated_config
from ding.bonus.quick.generated import GENERATED, apply_short_overrides
from ding.config import ConfigError, ConfigValueError, read_config
from ding.entry import RunCallback, cli, serial_pipeline, serial_pipeline_onpolicy
from ding.utils import POLICY_REGISTRY

WITHOUT_CONFIG = {"offppo_collect_traj", "ppo_stdim", "r2d2_collect_traj"}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_override_is_a_path_or_a_name_that_one_key_has() -> None:
    main, create = generated_config("dqn", "CartPole-v1")
    assert (main.exp_name, create.policy.type, main.policy.model.obs_shape) == ("CartPole-v1-dqn", "dqn", 4)
    apply_short_overrides({"batch_size": 7, "policy.other.eps.decay": 50, "stop_value": 30}, main, create)
    assert (main.policy.learn.batch_size, main.policy.other.eps.decay, main.env.stop_value) == (7, 50, 30)
    with pytest.raises(ConfigValueError, match=r"bach_size: the config has no such key\. Did you mean 'batch_size'"):
        apply_short_overrides({"bach_size": 7}, main, create)
    with pytest.raises(ConfigValueError, match=r"hook: give one of|hook: the config has no|type: give one of"):
        apply_short_overrides({"type": 7}, main, create)


def test_a_policy_that_does_not_exist_or_fit() -> None:
    with pytest.raises(AgentConfigError, match=r"no policy 'dqm' to train with\. Did you mean 'dqn'"):
        generated_config("dqm", "CartPole-v1")
    with pytest.raises(AgentConfigError, match="DQN needs a discrete action space"):
        generated_config("dqn", "Pendulum-v1")
    with pytest.raises(ConfigError, match="no gymnasium env is registered as 'CartPole-v11'; did you mean CartPole-v1"):
        generated_config("dqn", "CartPole-v11")


def test_a_policy_that_needs_more_than_an_env_names_a_config_to_begin_with() -> None:
    ours = {name for name in POLICY_REGISTRY if POLICY_REGISTRY.get(name).__module__.startswith("ding.")}
    others = {name for name in ours if f"{name}_command" in ours} - {*GENERATED}
    begins = {}
    for name in sorted(others):
        with pytest.raises(AgentConfigError, match=f"^no config for '{name}' follows from an env alone; ") as caught:
            generated_config(name, "CartPole-v1")
        begins[name] = str(caught.value).partition("; ")[2]
    assert {name for name, text in begins.items() if text == "write one: docs/user_guide.md"} == WITHOUT_CONFIG
    paths = [text.split(",")[0].removeprefix("copy ") for text in begins.values() if text.startswith("copy ")]
    assert all(Path(path).is_file() for path in paths)
    assert begins["bdq"].endswith("cartpole_bdq_config.py, change its env, and run that with python")


@pytest.mark.slow
@pytest.mark.parametrize("policy", GENERATED)
def test_a_generated_config_trains(policy) -> None:
    env_id = "Pendulum-v1" if policy in ("crossq", "ddpg", "droq", "redq", "sac", "td3", "tqc") else "CartPole-v1"
    ding.train(policy, env_id, max_env_step=100, exp_name="exp")
    assert Path("exp/result.json").is_file()


@pytest.mark.parametrize("policy", ["sac", "td3", "ddpg", "tqc", "crossq"])
@pytest.mark.parametrize("env_id", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_continuous_control_makes_an_update_of_256_samples_per_env_step(policy, env_id) -> None:
    section = generated_config(policy, env_id)[0].policy
    assert section.learn.update_per_collect == section.collect.n_sample
    assert section.learn.batch_size == 256


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["sac", "td3", "ddpg"])
def test_continuous_control_is_learned_within_10000_env_steps(policy) -> None:
    ding.train(policy, "Pendulum-v1", seed=0, max_env_step=10_000, exp_name="exp")
    assert json.loads(Path("exp/result.json").read_text())["eval_value"] >= -200


@pytest.mark.parametrize(("env_id", "stop_value"), [("CartPole-v1", 475), ("CartPole-v0", 195)])
@pytest.mark.parametrize("policy", ["dqn", "c51", "ppo", "rainbow"])
def test_cartpole_is_solved_where_gymnasium_says_so(policy, env_id, stop_value) -> None:
    assert generated_config(policy, env_id)[0].env.stop_value == stop_value


def test_train_returns_the_agent_of_its_folder() -> None:
    small = {"encoder_hidden_size_list": [8], "batch_size": 8, "eval_freq": 1000}
    agent = ding.train("dqn", "CartPole-v1", seed=1, max_env_step=40, exp_name="mine", **small)
    assert Path("mine/total_config.py").is_file()
    assert agent.predict(np.zeros(4, np.float32)) in (0, 1)
    again = ding.train("DQN", "CartPole-v1", seed=1, max_env_step=40, exp_name="mine", **small)
    assert again.exp_name != "mine"
    models = [one.policy.learn_mode.state_dict()["model"] for one in (agent, again)]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_the_command_trains_each_seed_in_a_folder_of_its_own() -> None:
    args = ["train", "dqn", "CartPole-v1", "-s", "0", "-s", "1", "--env-step", "16", "-o", "batch_size=4"]
    result = CliRunner().invoke(cli, [*args, "-o", "policy.model.encoder_hidden_size_list=[4]"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in Path("CartPole-v1-dqn").iterdir()) == ["seed0", "seed1"]
    wrong = CliRunner().invoke(cli, ["train", "dqn", "CartPole-v1", "-o", "batch_size=none_of_it"])
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(("policy", "env"), [("dqn", "CartPole-v1"), ("ppo", "Pendulum-v1"), ("qrdqn", "CartPole-v1")])
def test_a_new_config_runs_without_unknown_keys(policy, env) -> None:
    result = CliRunner().invoke(cli, ["new", "config", "--policy", policy, "--env", env, "--out", "c.py"])
    assert result.exit_code == 0, result.output
    assert "# (int) Samples of one update." in Path("c.py").read_text()
    main, create = read_config("c.py")
    main.env.update(collector_env_num=1, evaluator_env_num=1, n_evaluator_episode=1, stop_value=-1e9)
    pipeline = serial_pipeline_onpolicy if policy == "ppo" else serial_pipeline
    pipeline((main, create), max_env_step=1, strict=True)
    again = CliRunner().invoke(cli, ["new", "config", "--policy", policy, "--env", env, "--out", "c.py"])
    assert (again.exit_code, again.stderr) == (2, "ding: c.py exists already; choose another file with --out\n")


class Noted(RunCallback):
    def __init__(self, end_after=None) -> None:
        self.calls, self.end_after = [], end_after

    def on_evaluation(self, status):
        self.calls.append(("evaluation", status.evaluations))
        return status.evaluations != self.end_after

    def on_end(self, status):
        self.calls.append(("end", status.train_iter > 0))


class Counted(Noted):
    def on_iteration(self, status):
        self.calls.append(("iteration", status.env_step))


def small_run(**kwargs):
    main, create = generated_config("dqn", "CartPole-v1", "run")
    keys = {"encoder_hidden_size_list": [4], "batch_size": 4, "n_sample": 8, "eval_freq": 2, "stop_value": 1000}
    apply_short_overrides({**keys, "n_evaluator_episode": 1, "evaluator_env_num": 1}, main, create)
    main.update(kwargs.pop("config", {}))
    serial_pipeline((main, create), max_env_step=24, **kwargs)


def test_callbacks_see_each_evaluation_and_pass_and_may_end_the_run() -> None:
    counted, noted = Counted(), Noted(end_after=2)
    small_run(callbacks=[counted])
    assert [name for name, _ in counted.calls].count("iteration") == 3
    assert counted.calls[0] == ("evaluation", 1)
    assert counted.calls[-1] == ("end", True)
    small_run(callbacks=[noted])
    assert noted.calls == [("evaluation", 1), ("evaluation", 2), ("end", True)]


def test_wandb_logger_sends_a_run(monkeypatch) -> None:
    sent = []

    class Wandb:
        run = None
        init = staticmethod(lambda **kwargs: sent.append(("init", kwargs["project"])))
        log = staticmethod(lambda data, step: sent.append((step, sorted(data))))
        finish = staticmethod(lambda: sent.append(("finish", None)))

    monkeypatch.setitem(sys.modules, "wandb", Wandb)
    small_run(config={"wandb_logger": {"plot_logger": True}})
    assert (sent[0], sent[-1]) == (("init", "run"), ("finish", None))
    assert "episode return mean" in sent[1][1]
    assert "total_loss" in sent[-2][1]


@pytest.mark.slow
def test_wandb_offline_writes_into_a_folder(monkeypatch) -> None:
    pytest.importorskip("wandb", reason="the extra 'wandb' is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    small_run(config={"wandb_logger": {"plot_logger": True}})
    assert list(Path("wandb").glob("offline-run-*"))


AGENTS = [(DQNAgent, "CartPole-v1"), (PPOAgent, "CartPole-v1"), (PPOAgent, "Pendulum-v1"), (SACAgent, "Pendulum-v1")]


# Torch's own note on the format.
@pytest.mark.filterwarnings("ignore:.torch.jit.load. is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("cls", "env_id"), AGENTS)
def test_an_exported_policy_acts_as_the_agent_does(cls, env_id) -> None:
    agent = cls(env_id, exp_name="exp")
    module = torch.jit.load(export(agent, "policy.pt"))
    obs = np.random.default_rng(3).uniform(-1, 1, (5, agent.env.observation_space.shape[0])).astype(np.float32)
    np.testing.assert_allclose(module(torch.from_numpy(obs)).numpy(), agent.predict(obs), rtol=1e-5, atol=1e-5)
    assert [path.name for path in Path().glob("policy*")] == ["policy.pt"]


def test_the_command_exports_a_run(monkeypatch) -> None:
    small_run()
    result = CliRunner().invoke(cli, ["export", "run"])
    assert (result.exit_code, result.stdout.split(":")[0]) == (0, "run/policy.pt"), result.output
    wrong = CliRunner().invoke(cli, ["export", "run", "--format", "onx"])
    assert wrong.exit_code == 2
    assert wrong.stderr.startswith("ding: format='onx' is unknown. Did you mean 'onnx'?")


@pytest.mark.slow
def test_onnx_acts_as_the_agent_does() -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    pytest.importorskip("onnxscript", reason="the extra 'onnx' is not installed")
    assert Path(export(PPOAgent("Pendulum-v1", exp_name="exp"), "policy.onnx", "onnx")).stat().st_size > 1000


def test_a_prediction_is_greedy_or_drawn() -> None:
    agent = PPOAgent("CartPole-v1", exp_name="exp")
    obs = np.zeros((64, 4), np.float32)
    assert len(set(agent.predict(obs).tolist())) == 1
    assert set(agent.predict(obs, deterministic=False).tolist()) == {0, 1}
    assert DQNAgent("CartPole-v1", exp_name="exp").predict(obs[0], deterministic=False) in (0, 1)
