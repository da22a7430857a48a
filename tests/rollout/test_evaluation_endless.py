"""An episode of an evaluation that does not end is warned of."""

import logging

import numpy as np
import pytest

from ding.envs import BaseEnvManager
from ding.envs.testing import CountingEnv
from ding.rollout import EndlessEpisodes
from ding.worker import InteractionSerialEvaluator
from ding.worker.testing import BatchedScriptedPolicy


def evaluate(length, warn_steps):
    env = BaseEnvManager([lambda: CountingEnv({"episode_length": length})] * 2, {})
    cfg = InteractionSerialEvaluator.default_config()
    cfg.update(stop_value=1e9, n_episode=4, warn_steps=warn_steps)
    evaluator = InteractionSerialEvaluator(cfg, env, BatchedScriptedPolicy().eval_mode)
    evaluator.eval()
    evaluator.close()


@pytest.mark.parametrize(("length", "warn_steps", "expected"), [(9, 10, 0), (9, 5, 1), (9, 2, 3), (9, None, 0)])
def test_an_evaluation_warns_of_long_episodes_and_each_time_they_double(
    length, warn_steps, expected, caplog, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING, logger="ding"):
        evaluate(length, warn_steps)
    lines = [record.getMessage() for record in caplog.records if "does not end" in record.getMessage()]
    assert len(lines) == expected
    assert all("env.max_episode_steps" in line and "policy.eval.evaluator.warn_steps" in line for line in lines)


def test_only_the_steps_of_one_episode_count(caplog):
    endless = EndlessEpisodes(2, 3)
    for step in range(1, 9):
        endless.note(np.array([0, 1]), np.array([step % 2 == 0] * 2))
    assert not caplog.records


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match=r"policy\.eval\.evaluator\.warn_steps must be at least 1 or None, got 0"):
        EndlessEpisodes(2, 0)
