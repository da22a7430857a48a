"""A learner whose policy makes several updates in one call: hooks and checks are those of single updates."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from ding.data import TransitionBatch
from ding.policy import DQNPolicy
from ding.torch_utils.weight_checks import NonFiniteError
from ding.utils import deep_merge_dicts
from ding.worker import BaseLearner
from tests.worker.learner.test_base_learner import RecordingWriter

ROWS, JOINED = 4, 5
HOOKS = {"save_ckpt_after_iter": 3, "log_show_after_iter": 4}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def learner_of(name: str, compiled: Any) -> BaseLearner:
    model = {"obs_shape": 3, "action_shape": 2, "encoder_hidden_size_list": [4, 4]}
    cfg = deep_merge_dicts(DQNPolicy.default_config(), {"model": model, "learn": {"compile": compiled}})
    learn = DQNPolicy(cfg, enable_field=["learn"]).learn_mode
    learner_cfg = BaseLearner.default_config()
    learner_cfg.hook.update(HOOKS)
    return BaseLearner(learner_cfg, learn, tb_logger=RecordingWriter(), exp_name=name)


def batches(count: int) -> list[TransitionBatch]:
    rng = np.random.default_rng(0)
    return [
        TransitionBatch({
            "obs": rng.normal(size=(ROWS, 3)).astype(np.float32),
            "next_obs": rng.normal(size=(ROWS, 3)).astype(np.float32),
            "action": rng.integers(0, 2, (ROWS, 1)),
            "reward": rng.normal(size=(ROWS, 1)).astype(np.float32),
            "done": np.zeros(ROWS, bool),
        })
        for _ in range(count)
    ]  # fmt: skip


def saved(tmp_path: Any, name: str) -> list[str]:
    return sorted(path.name for path in (tmp_path / name / "ckpt").glob("*.pth.tar"))


def test_hooks_have_their_rhythm_in_updates_not_in_calls(tmp_path):
    single, joined = learner_of("single", False), learner_of("joined", "record")
    parts = batches(4 * JOINED)
    for part in parts:
        single.train(part)
    for start in range(0, len(parts), JOINED):
        joined.train(TransitionBatch.concat(parts[start : start + JOINED]), policy_kwargs={"num_updates": JOINED})
    assert joined.policy.get_attribute("compiled_updates").graphs.num_runs == 4
    assert joined.train_iter == single.train_iter == len(parts)
    assert saved(tmp_path, "joined") == saved(tmp_path, "single") != []
    logged = [[(tag, step) for tag, _, step in learner.tb_logger.calls] for learner in (single, joined)]
    assert logged[0] == logged[1] != []


def test_a_loss_that_is_not_finite_ends_the_run_in_a_joined_call_too(tmp_path):
    learner = learner_of("bad", "record")
    good, bad = TransitionBatch.concat(batches(JOINED)), TransitionBatch.concat(batches(JOINED))
    bad.columns["reward"][2 * ROWS] = math.nan
    learner.train(good, policy_kwargs={"num_updates": JOINED})
    with pytest.raises(NonFiniteError, match=f"train iteration {JOINED}: total_loss is nan"):
        learner.train(bad, policy_kwargs={"num_updates": JOINED})
    assert (tmp_path / "bad/nonfinite").is_dir()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])  # noqa: S301 - its own bytes
def test_a_copied_policy_goes_on_with_the_same_numbers_and_graphs_of_its_own(copied):
    model = {"obs_shape": 3, "action_shape": 2, "encoder_hidden_size_list": [4, 4]}
    cfg = deep_merge_dicts(DQNPolicy.default_config(), {"model": model, "learn": {"compile": "record"}})
    policy = DQNPolicy(cfg, enable_field=["learn"])
    first, *rest = batches(4)
    policy.learn_mode.forward(first)
    twin = copied(policy)
    for batch in rest:
        assert twin.learn_mode.forward(batch) == policy.learn_mode.forward(batch)
    assert [one.learn_mode.get_attribute("compiled_updates").graphs.num_compiled for one in (policy, twin)] == [1, 2]
