"""A parallel run keeps the weights of its best evaluation, as a serial one does."""

import logging
from copy import deepcopy

import pytest
import torch

import ding
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import parallel_pipeline
from ding.entry.application_entry import evaluate
from ding.entry.parallel.best_policy import BestPolicy, best_path, keep_as_best, read_best
from ding.entry.parallel.final_evaluation import evaluated_at_end
from ding.entry.parallel.reports import newest_checkpoint
from ding.entry.parallel.snapshots import KeptPlanes
from ding.entry.view.experiment import best_checkpoint, next_steps
from ding.entry.view.status import RunStatus
from ding.parallel.planes import EVALUATED, forget_inproc_planes
from ding.rollout import EvaluationResult
from ding.utils.checkpoint import read_checkpoint, save_checkpoint

BEST = "ckpt/ckpt_best.pth.tar"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield KeptPlanes("inproc", "best", "best", token=None)
    forget_inproc_planes("best")


def judge(policy, kept, mean, train_iter, opponent=None, published=None):
    """Report an evaluation of weights that are all ``train_iter``."""
    state = {"model": {"w": torch.full((2,), float(train_iter))}}
    kept.weights(EVALUATED).publish(state, train_iter if published is None else published)
    more = {} if opponent is None else {"opponent": opponent}
    policy.note({"reward_mean": mean, "train_iter": train_iter, "episode_count": 5.0, **more})


def weight():
    return float(read_checkpoint(best_path("exp"))["model"]["w"][0])


def test_the_weights_of_the_best_evaluation_stay(kept):
    policy = BestPolicy("exp", kept)
    policy.note({})
    assert read_best("exp") is None
    for mean, train_iter, best in ((3.0, 10, 10), (5.0, 20, 20), (5.0, 30, 20), (4.0, 40, 20), (6.0, 50, 50)):
        judge(policy, kept, mean, train_iter)
        assert weight() == best
    assert read_best("exp") == EvaluationResult(6.0, episodes=5, train_iter=50)
    assert "the best policy is in exp/ckpt/ckpt_best.pth.tar" in next_steps("exp")
    # It has no optimiser, so that no run is resumed from it.
    assert newest_checkpoint("exp") is None
    # A coordinator that was started again knows how good it is.
    judge(BestPolicy("exp", kept), kept, 5.5, 60)
    assert weight() == 50


def test_a_later_opponent_is_the_harder_one(kept):
    policy = BestPolicy("exp", kept)
    for mean, train_iter, opponent, best in ((8.0, 10, "EASY", 10), (2.0, 20, "HARD", 20), (1.0, 30, "HARD", 20)):
        judge(policy, kept, mean, train_iter, opponent)
        assert weight() == best


def test_weights_of_another_evaluation_are_not_taken_for_the_best(kept, caplog):
    with caplog.at_level(logging.WARNING, "ding"):
        judge(BestPolicy("exp", kept), kept, 3.0, 10, published=11)
    assert not best_path("exp").exists()
    assert "the best policy is not kept" in caplog.text


def test_the_last_checkpoint_can_be_the_best(kept):
    policy = BestPolicy("exp", kept)
    judge(policy, kept, 3.0, 10)
    save_checkpoint("exp/ckpt/ckpt_final.pth.tar", {"model": {"w": torch.full((2,), 70.0)}}, {"train_iter": 70})
    keep_as_best("exp", "exp/ckpt/ckpt_final.pth.tar", EvaluationResult(9.0, train_iter=70))
    assert (weight(), read_best("exp").train_iter) == (70.0, 70)
    judge(BestPolicy("exp", kept), kept, 8.0, 80)
    assert weight() == 70.0


def test_the_best_evaluation_is_that_of_the_weights_that_stay(kept):
    """Reports of a run may miss an evaluation, which its coordinator has seen."""
    policy = BestPolicy("exp", kept)
    for mean, train_iter in ((5.0, 10), (5.0, 20)):
        judge(policy, kept, mean, train_iter)
    reported = EvaluationResult(5.0, episodes=5, train_iter=20)
    status = RunStatus("exp", train_iter=20, best_evaluation=reported, best_return=5.0)
    assert evaluated_at_end(status, {}, {}, 0, None).best_evaluation == read_best("exp")
    assert read_best("exp").train_iter == 10


def test_a_run_in_threads_leaves_its_best_policy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create, system = map(
        deepcopy, (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    main.exp_name = "exp"
    main.env.update(stop_value=10**9, collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2)
    main.policy.other.commander.eval_interval = 0.01
    result = parallel_pipeline((main, create, system), max_train_iter=30, backend="inproc")
    best = result["best_evaluation"]
    assert str(best_checkpoint("exp")) == f"exp/{BEST}"
    assert read_best("exp") == EvaluationResult(**best)
    assert best["mean"] == result["best_return"] >= result["last_evaluation"]["mean"]
    # Each evaluation of a run plays the same episodes.
    assert evaluate("exp/total_config.py", seed=0, load_path="exp", episodes=2).mean == best["mean"]
    saved = read_checkpoint(f"exp/{BEST}")["model"]
    loaded = ding.load("exp").policy.eval_mode.state_dict()["model"]
    assert all(torch.equal(loaded[name], tensor) for name, tensor in saved.items())
