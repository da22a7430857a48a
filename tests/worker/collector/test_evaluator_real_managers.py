"""The interaction evaluator on the env managers that ship here."""

import numpy as np
import pytest

from ding.envs import (
    AsyncSubprocessEnvManager,
    BaseEnvManager,
    BaseEnvManagerV2,
    GymVectorEnvManager,
    SubprocessEnvManagerV2,
    SyncSubprocessEnvManager,
)
from ding.envs.testing import CountingEnv, CountingGymEnv
from ding.worker import InteractionSerialEvaluator
from ding.worker.testing import BatchedScriptedPolicy, ScriptedPolicy

POLICIES = pytest.mark.parametrize("policy_cls", [ScriptedPolicy, BatchedScriptedPolicy])


class Writer:
    def __init__(self):
        self.values = {}

    def add_scalar(self, tag, value, step):
        self.values[tag] = value

    def flush(self):
        pass


def evaluate(manager, policy, n_episode):
    cfg = InteractionSerialEvaluator.default_config()
    cfg.update({"stop_value": 1e9, "n_episode": n_episode})
    writer = Writer()
    evaluator = InteractionSerialEvaluator(cfg, manager, policy.eval_mode, tb_logger=writer)
    try:
        _, info = evaluator.eval(train_iter=1)
        return info["eval_episode_return"], writer.values["evaluator_iter/envstep_count"]
    finally:
        evaluator.close()


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def counting(lengths, **settings):
    return [lambda length=length: CountingEnv({"episode_length": length, **settings}) for length in lengths]


@POLICIES
@pytest.mark.parametrize(
    "manager_cls",
    [
        BaseEnvManager,
        SyncSubprocessEnvManager,
        AsyncSubprocessEnvManager,
        BaseEnvManagerV2,
        SubprocessEnvManagerV2,
    ],
)
def test_each_env_plays_its_share(manager_cls, policy_cls):
    manager = manager_cls(counting([2, 7, 4]), manager_cls.default_config())
    returns, num_env_steps = evaluate(manager, policy_cls(), 5)
    # An episode of length n returns n * (n + 1) / 2.
    assert returns == [3.0, 3.0, 28.0, 28.0, 10.0]
    assert num_env_steps == 2 * 2 + 2 * 7 + 4


@POLICIES
@pytest.mark.parametrize("manager_cls", [BaseEnvManager, SyncSubprocessEnvManager])
def test_abnormal_env_comes_back(manager_cls, policy_cls):
    manager = manager_cls(counting([3, 3], abnormal_steps=[2]), manager_cls.default_config())
    returns, num_env_steps = evaluate(manager, policy_cls(), 4)
    assert returns == [6.0] * 4
    # Step 1 of each broken episode was a good one.
    assert num_env_steps == 4 * 3 + 2


@POLICIES
def test_manager_with_an_end_is_revived(policy_cls):
    cfg = BaseEnvManager.default_config()
    cfg.episode_num = 2
    assert evaluate(BaseEnvManager(counting([3], dict_obs=True), cfg), policy_cls(), 5)[0] == [6.0] * 5


@POLICIES
@pytest.mark.parametrize("mode", ["sync", None])
def test_vector_env_steps_all_but_counts_the_share(mode, policy_cls):
    cfg = GymVectorEnvManager.default_config()
    cfg.vectorization_mode = mode
    envs = [lambda length=length: CountingGymEnv(episode_length=length) for length in (2, 7)]
    returns, num_env_steps = evaluate(GymVectorEnvManager(envs, cfg), policy_cls(), 3)
    assert np.asarray(returns).tolist() == [3.0, 3.0, 28.0]
    assert num_env_steps == 2 * 2 + 7
