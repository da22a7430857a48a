"""Statistics of ``obs_norm`` and ``reward_norm`` are state of a run, in its checkpoints and wherever these are used."""

from copy import deepcopy
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium import spaces

import ding
from ding.bonus import DQNAgent
from ding.entry import eval as evaluate
from ding.entry import serial_pipeline, serial_pipeline_onpolicy
from tests.entry.serial.test_serial_exact_resume import digest_of, resumed_config

OBS_NORM, REWARD_NORM = {"type": "obs_norm"}, {"type": "reward_norm", "kwargs": {"reward_discount": 0.9}}
EVAL_RETURN = {"type": "eval_episode_return"}


class FarEnv(gymnasium.Env):
    """Observations are 1000 +- 1; the action that pays is whether the observation is above 1000. 20 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def _obs(self):
        self.z = float(self.np_random.normal())
        return np.array([1000 + self.z], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        reward, self.t = float(int(action) == int(self.z > 0)), self.t + 1
        return self._obs(), reward, self.t >= 20, False, {}

    def get_state(self):
        return {"z": self.z, "t": self.t, "generator": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.z, self.t = state["z"], state["t"]
        self.np_random.bit_generator.state = state["generator"]


gymnasium.register("DingFar-v0", entry_point=FarEnv)


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(exp_name: str, wrappers=(OBS_NORM, REWARD_NORM, EVAL_RETURN), **learn) -> tuple[EasyDict, EasyDict]:
    main = {
        "exp_name": exp_name,
        "env": {
            "env_id": "DingFar-v0",
            "env_wrapper": list(wrappers),
            "stop_value": 99,
            "collector_env_num": 4,
            "evaluator_env_num": 4,
            "n_evaluator_episode": 8,
        },
        "policy": {
            "discount_factor": 0.0,
            "nstep": 1,
            "model": {"obs_shape": 1, "action_shape": 2, "encoder_hidden_size_list": [16, 16]},
            "learn": {"update_per_collect": 5, "batch_size": 64, "learning_rate": 0.003, **learn},
            "collect": {"n_sample": 64},
            "eval": {"evaluator": {"eval_freq": 50}},
            "other": {"eps": {"start": 0.9, "end": 0.1, "decay": 1000}},
        },
    }
    create = {
        "env": {"type": "gymnasium", "import_names": ["ding.envs"]},
        "env_manager": {"type": "base"},
        "policy": {"type": "dqn"},
    }
    return EasyDict(deepcopy(main)), EasyDict(create)


def test_training_eval_load_predict_and_deploy_act_alike() -> None:
    returns = []
    serial_pipeline(config("far"), seed=0, max_train_iter=250)
    state = torch.load("far/ckpt/ckpt_best.pth.tar", weights_only=True)
    assert abs(float(state["normalization"]["obs"]["mean"]) - 1000) < 0.2
    assert abs(float(state["normalization"]["obs"]["var"]) - 1) < 0.2
    returns.append(evaluate(config("far"), seed=0, load_path="far/ckpt/ckpt_best.pth.tar"))
    agent = ding.load("far", trust_config=True)
    returns.append(agent.deploy(seed=[1, 2, 3, 4]).eval_value)
    assert min(returns) >= 19, returns
    assert [agent.predict([999.0]), agent.predict([1001.0])] == [0, 1]
    assert list(agent.predict([[999.0], [1001.0]])) == [0, 1]


@pytest.mark.parametrize("kind", ["dqn", "ppo"])
def test_a_resumed_run_is_the_run_that_went_on(kind) -> None:
    def made(name: str, **learn):
        main, create = config(name, run_state_freq=20, **learn)
        if kind == "ppo":
            create.policy.type = "ppo"
            main.policy = EasyDict(
                action_space="discrete",
                model={"obs_shape": 1, "action_shape": 2, "encoder_hidden_size_list": [64, 64]},
                learn={"epoch_per_collect": 2, "batch_size": 16, "run_state_freq": 20, **learn},
                collect={"n_sample": 50},
            )
        return main, create

    pipeline = serial_pipeline if kind == "dqn" else serial_pipeline_onpolicy
    pipeline(made("whole"), seed=0, max_train_iter=60)
    pipeline(made("parts"), seed=0, max_train_iter=40)
    pipeline(resumed_config(made("parts", resume_training=True), "parts"), seed=0, max_train_iter=60)
    snapshots = [sorted(Path(name, "ckpt").glob("snapshot_*"))[-1] for name in ("whole", "parts")]
    assert snapshots[0].name == snapshots[1].name
    learned = torch.load(snapshots[0] / "learner.pth.tar", weights_only=True)
    assert set(learned["normalization"]) == {"obs", "returns"}
    assert digest_of(snapshots[0], False) == digest_of(snapshots[1], False)


def test_a_checkpoint_without_statistics_is_used_with_a_warning(caplog) -> None:
    serial_pipeline(config("plain", wrappers=[EVAL_RETURN]), seed=0, max_train_iter=5)
    path = "plain/ckpt/ckpt_best.pth.tar"
    assert "normalization" not in torch.load(path, weights_only=True)
    evaluate(config("far"), seed=0, load_path=path)
    assert "no statistics of obs_norm" in caplog.text


def test_an_agent_trains_evaluates_and_loads_with_one_set_of_statistics() -> None:
    cfg = {"env": {"env_wrapper": [OBS_NORM, EVAL_RETURN]}, "policy": config("x")[0].policy}
    agent = DQNAgent("DingFar-v0", exp_name="agent", cfg=cfg)
    agent.train(step=2500)
    assert [agent.predict([999.0]), agent.predict([1001.0])] == [0, 1]
    assert agent.deploy(seed=[1, 2]).eval_value >= 18
    counted = agent.policy.learn_mode.state_dict()["normalization"]["obs"]["count"]
    assert counted >= 2500
    agent.collect_data(n_sample=20, save_data_path="data", data_type="naive")
    assert agent.policy.learn_mode.state_dict()["normalization"]["obs"]["count"] == counted
    again = DQNAgent("DingFar-v0", exp_name="agent", cfg=cfg).best
    assert [again.predict([999.0]), again.predict([1001.0])] == [0, 1]
