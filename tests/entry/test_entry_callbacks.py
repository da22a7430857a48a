"""Callbacks of the user in the pipelines of both modes."""

import inspect
from copy import deepcopy

import pytest

import ding.entry
from ding.bonus import generated_config
from ding.bonus.quick.generated import apply_short_overrides
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import (
    RunCallback,
    parallel_pipeline,
    serial_pipeline_plr,
    serial_pipeline_reward_model_offpolicy,
)
from ding.entry.view.callbacks import ReportedProgress
from ding.entry.view.status import RunStatus

PIPELINES = sorted(name for name in dir(ding.entry) if name.startswith(("serial_pipeline", "parallel_pipeline")))
REWARDS = {"rnd": {"type": "rnd", "obs_shape": 4, "hidden_size_list": [4], "batch_size": 4, "update_per_collect": 1}}
LEVELS = {"strategy": "policy_entropy", "num_levels": 4}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


class Noted(RunCallback):
    """Notes the calls; the iteration ``last`` ends the run."""

    def __init__(self, last=None) -> None:
        self.calls, self.last, self.status = [], last, None

    def on_evaluation(self, status):
        self.calls.append("evaluation")

    def on_iteration(self, status):
        self.calls.append("iteration")
        return self.calls.count("iteration") != self.last

    def on_end(self, status):
        self.calls.append("end")
        self.status = status


@pytest.mark.parametrize("name", PIPELINES)
def test_each_pipeline_takes_callbacks(name) -> None:
    parameter = inspect.signature(getattr(ding.entry, name)).parameters["callbacks"]
    assert (parameter.kind, parameter.default) == (inspect.Parameter.KEYWORD_ONLY, ())


def small_config(policy, **keys):
    main, create = generated_config(policy, "CartPole-v1", "run")
    small = {"encoder_hidden_size_list": [4], "batch_size": 4, "n_sample": 8, "eval_freq": 1000, "stop_value": 1000}
    apply_short_overrides({**small, "n_evaluator_episode": 1, "evaluator_env_num": 1, **keys}, main, create)
    return main, create


def test_a_callback_ends_a_run_with_a_reward_model() -> None:
    main, create = small_config("dqn")
    main.reward_model, create.reward_model = REWARDS["rnd"], {"type": "rnd"}
    noted = Noted(last=2)
    serial_pipeline_reward_model_offpolicy((main, create), max_env_step=1000, callbacks=[noted])
    assert noted.calls == ["evaluation", "iteration", "iteration", "evaluation", "end"]
    assert noted.status.env_step == 16


def test_the_evaluation_that_solves_is_seen() -> None:
    main, create = small_config("ppo", stop_value=1, eval_freq=1)
    main.policy.model.update(actor_head_hidden_size=4, critic_head_hidden_size=4)
    main.level_replay = LEVELS
    noted = Noted()
    serial_pipeline_plr((main, create), callbacks=[noted])
    assert (noted.calls[-2:], noted.status.solved) == (["evaluation", "end"], True)


def test_reports_of_other_processes_become_calls() -> None:
    noted = Noted(last=2)
    progress = ReportedProgress([noted], RunStatus("e", train_iter=5))
    assert progress.update(RunStatus("e", train_iter=5, env_step=9))
    assert noted.calls == []
    assert progress.update(RunStatus("e", train_iter=7, evaluations=1))
    assert not progress.update(RunStatus("e", train_iter=9, evaluations=1))
    progress.end(RunStatus("e", train_iter=9, evaluations=2))
    assert noted.calls == ["evaluation", "iteration", "iteration", "evaluation", "end"]


@pytest.mark.slow
def test_a_callback_ends_a_parallel_run() -> None:
    main = deepcopy(parallel_test_main_config)
    main["exp_name"], main["env"]["stop_value"] = "run", 10**9
    noted = Noted(last=1)
    configs = main, parallel_test_create_config, parallel_test_system_config
    result = parallel_pipeline(configs, max_train_iter=10**7, callbacks=[noted])
    assert noted.calls[-1] == "end"
    assert not result["solved"]
    assert result["train_iter"] == noted.status.train_iter > 0
