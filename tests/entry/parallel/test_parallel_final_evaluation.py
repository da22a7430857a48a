"""The last weights of a parallel run are evaluated, too, and its result says how good they and the best ones are."""

import json
import logging
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from ding.config import compile_config, read_config_with_system
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import parallel_pipeline
from ding.entry.application_entry import evaluate
from ding.entry.parallel.best_policy import read_best
from ding.entry.parallel.final_evaluation import evaluated_at_end
from ding.entry.parallel.reports import ReportReader, finish_run
from ding.entry.serial_entry import load_input, without_roles
from ding.entry.view.status import RunStatus
from ding.policy import create_policy
from ding.rollout import EvaluationResult
from ding.utils.checkpoint import read_checkpoint, save_checkpoint

DUEL = Path(__file__).parents[3] / "configs" / "duel" / "parallel" / "duel_dqn_config.py"
CHECKPOINT = "exp/ckpt/ckpt_final.pth.tar"
WORST = EvaluationResult(1.0, 0.0, 1.0, 1.0, 5, train_iter=3)


@pytest.fixture
def configs(tmp_path, monkeypatch):
    """The configs of a run whose learner left a checkpoint."""
    monkeypatch.chdir(tmp_path)
    main, create = deepcopy(parallel_test_main_config), deepcopy(parallel_test_create_config)
    main.exp_name = "exp"
    main.env.update(evaluator_env_num=5, n_evaluator_episode=5)
    own = without_roles(*load_input((main, create)))
    cfg = compile_config(own[0], auto=True, create_cfg=own[1], save_cfg=False)
    save_checkpoint(CHECKPOINT, create_policy(cfg.policy).learn_mode.state_dict(), {"train_iter": 8})
    return main, create


def status(last=WORST, **settings):
    mean = None if last is None else last.mean
    return RunStatus("exp", train_iter=8, last_return=mean, best_return=mean, last_evaluation=last,
                     best_evaluation=last, evaluations=1, stop_value=1e9, **settings)  # fmt: skip


def test_the_last_weights_of_a_run_are_evaluated_as_the_command_line_does_it(configs):
    end = evaluated_at_end(status(), *configs, 0, CHECKPOINT)
    assert (end.evaluations, end.last_evaluation.train_iter, end.last_evaluation.episodes) == (2, 8, 5)
    assert end.best_evaluation == end.last_evaluation
    assert end.last_return == evaluate(configs, seed=0, load_path=CHECKPOINT).mean
    assert read_best("exp") == end.last_evaluation
    assert read_checkpoint("exp/ckpt/ckpt_best.pth.tar").keys() == read_checkpoint(CHECKPOINT).keys()
    result, sentence = finish_run(end, CHECKPOINT)
    assert result["return"] == result["best_return"] == result["last_evaluation"]["mean"] == end.last_return
    assert json.loads(Path("exp/result.json").read_text()) == result
    assert "last and best evaluation: return " in sentence
    assert "the best policy is in exp/ckpt/ckpt_best.pth.tar" in sentence


def test_a_better_evaluation_before_stays_the_best(configs):
    best = EvaluationResult(500.0, 0.0, 500.0, 500.0, 5, train_iter=3)
    end = evaluated_at_end(status(best), *configs, 0, CHECKPOINT)
    assert (end.best_evaluation, end.best_return) == (best, 500.0)
    assert end.last_evaluation.train_iter == 8


@pytest.mark.parametrize(
    "before", [status(EvaluationResult(1.0, train_iter=8)), status(None)], ids=["of these weights", "none that ended"]
)
def test_what_needs_no_further_evaluation_gets_none(configs, before):
    assert evaluated_at_end(before, *configs, 0, CHECKPOINT) is before
    assert evaluated_at_end(status(), *configs, 0, None).evaluations == 1


def test_an_evaluation_that_fails_is_a_warning(configs, caplog):
    configs[0].env.env_id = "Gone-v0"
    before = status()
    with caplog.at_level(logging.WARNING, "ding"):
        assert evaluated_at_end(before, *configs, 0, CHECKPOINT) is before
    assert "the last weights are not evaluated: " in caplog.text


def test_the_reader_keeps_the_best_of_what_was_reported():
    reader = ReportReader("exp", {}, clock=lambda: 0.0)

    def report(mean, train_iter):
        values = {"reward_mean": mean, "reward_std": 1.0, "reward_min": mean - 1, "reward_max": mean + 1}
        return {"return": mean, "last_evaluation": {"train_iter": train_iter, "episode_count": 5.0, **values}}

    assert reader.read({}).last_evaluation is None
    reader.read({**report(9.0, 2), "best_return": 9.0})
    found = reader.read({**report(4.0, 7), "best_return": 9.0})
    assert found.last_evaluation == EvaluationResult(4.0, 1.0, 3.0, 5.0, 5, 7)
    assert found.best_evaluation == EvaluationResult(9.0, 1.0, 8.0, 10.0, 5, 2)


def test_a_game_of_two_players_ends_with_its_last_opponent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create, _ = read_config_with_system(str(DUEL))
    main.exp_name = "exp"
    main.env.update(evaluator_env_num=5, n_evaluator_episode=5)
    own = without_roles(*load_input((main, create)))
    cfg = compile_config(own[0], auto=True, create_cfg=own[1], save_cfg=False)
    save_checkpoint(CHECKPOINT, create_policy(cfg.policy).learn_mode.state_dict(), {"train_iter": 8})
    last = EvaluationResult(-20.0, 0.0, -20.0, -20.0, 5, train_iter=3, opponent="GREEDY")
    end = evaluated_at_end(replace(status(last), stop_value=-100.0), main, create, 0, CHECKPOINT)
    assert (end.last_evaluation.train_iter, end.last_evaluation.opponent) == (8, "GREEDY")
    # By the command line it plays the hardest opponent of the league.
    returns = [evaluate((main, create), seed=0, load_path=CHECKPOINT).mean]
    for main.env.eval_opponent in ("RULE_BASED", "RANDOM"):
        returns.append(evaluate((main, create), seed=0, load_path=CHECKPOINT).mean)
    assert returns[0] == returns[1] != returns[2]
    main.env.eval_opponent = "GREEDY"
    assert end.last_return == evaluate((main, create), seed=0, load_path=CHECKPOINT).mean
    # The commander knows whether a harder opponent is left.
    assert not end.solved
    assert read_best("exp") == end.best_evaluation == end.last_evaluation
    result, _ = finish_run(end, CHECKPOINT)
    assert result["last_evaluation"]["opponent"] == "GREEDY"


@pytest.mark.slow
def test_a_run_in_threads_ends_with_an_evaluation_of_its_last_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create, system = map(
        deepcopy, (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    main.env.update(stop_value=10**9, collector_env_num=2, evaluator_env_num=2)
    result = parallel_pipeline((main, create, system), max_train_iter=30, backend="inproc")
    assert result["last_evaluation"]["train_iter"] >= 30
    assert result["last_evaluation"]["episodes"] == 2
    assert result["best_return"] >= result["return"]
