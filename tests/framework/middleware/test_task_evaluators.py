"""Evaluators of a task: when they play, what they write, and when they end the task."""

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.envs import BaseEnvManagerV2
from ding.envs.testing import CountingEnv
from ding.framework import Context, OfflineRLContext, OnlineRLContext, task
from ding.framework.middleware import (
    IMetric,
    VectorEvalMonitor,
    interaction_evaluator,
    interaction_evaluator_ttorch,
    metric_evaluator,
)
from ding.worker.testing import BatchedScriptedPolicy, ScriptedPolicy


def manager(*lengths: int) -> BaseEnvManagerV2:
    envs = [lambda length=length: CountingEnv({"episode_length": length}) for length in lengths]
    return BaseEnvManagerV2(envs, cfg=BaseEnvManagerV2.default_config())


def config(n_episode: int = 3, stop_value: float = 1e9, eval_freq: int = 10) -> EasyDict:
    return EasyDict(
        seed=0,
        env=dict(n_evaluator_episode=n_episode, stop_value=stop_value),
        policy=dict(eval=dict(evaluator=dict(eval_freq=eval_freq), batch_size=2)),
    )


@pytest.fixture(autouse=True)
def _started():
    with task.start(ctx=OnlineRLContext()):
        yield


@pytest.mark.parametrize("policy_class", [ScriptedPolicy, BatchedScriptedPolicy])
@pytest.mark.parametrize("context", [OnlineRLContext, OfflineRLContext])
def test_what_an_evaluation_writes(policy_class, context) -> None:
    ctx = context(train_iter=5)
    interaction_evaluator(config(), policy_class().eval_mode, manager(3, 7))(ctx)
    # Env 0 plays two episodes of return 6, env 1 one of return 28.
    assert ctx.eval_output["episode_return"] == [6.0, 6.0, 28.0]
    assert ctx.eval_value == ctx.last_eval_value == pytest.approx(40 / 3)
    assert (ctx.eval_value_min, ctx.eval_value_max) == (6.0, 28.0)
    assert ctx.eval_value_std == pytest.approx(np.std([6, 6, 28]))
    assert ctx.last_eval_iter == 5
    assert len(ctx.eval_output["output"]) >= 1


def test_it_plays_at_first_and_then_every_so_many_iterations() -> None:
    policy = ScriptedPolicy()
    evaluate = interaction_evaluator(config(n_episode=2), policy.eval_mode, manager(1, 1))
    played = []
    for train_iter in (0, 0, 9, 10, 10, 19, 20):
        before = len(policy.forwards)
        evaluate(OnlineRLContext(train_iter=train_iter))
        played.append(len(policy.forwards) > before)
    assert played == [True, False, False, True, False, False, True]


def test_several_evaluators_play_at_one_iteration() -> None:
    env, policy, ctx = manager(1, 1), ScriptedPolicy(), OnlineRLContext()
    for temperature in (1, 2):
        interaction_evaluator(config(n_episode=2), policy.eval_mode, env, temperature=temperature)(ctx)
    assert [kwargs for _, _, kwargs in policy.forwards] == [{"temperature": 1}, {"temperature": 2}]
    assert ctx.info_for_logging["temperature(2)/eval_episode_return"] == 1.0
    assert {key.rpartition("/")[2] for key in ctx.info_for_logging} == {
        "eval_episode_return", "eval_episode_return_min", "eval_episode_return_max", "eval_episode_return_std",
    }  # fmt: skip


@pytest.mark.parametrize(("train_iter", "finish"), [(0, False), (1, True)])
def test_a_good_return_ends_the_task_after_training_has_begun(train_iter, finish) -> None:
    interaction_evaluator(config(stop_value=13), ScriptedPolicy().eval_mode, manager(3, 7))(
        OnlineRLContext(train_iter=train_iter)
    )
    assert task.finish is finish


def test_another_context_is_refused_before_anything_is_played() -> None:
    policy = ScriptedPolicy()
    with pytest.raises(TypeError, match="OnlineRLContext or OfflineRLContext, got Context"):
        interaction_evaluator(config(), policy.eval_mode, manager(3, 7))(Context())
    assert policy.forwards == []


def test_episodes_beyond_the_share_of_an_env_are_ignored() -> None:
    monitor = VectorEvalMonitor(2, 3)
    for value in (1, 2, 3):
        monitor.update_reward(0, value)
        monitor.update_info(0, {"a": value, "b": "text"})
    assert not monitor.is_finished()
    monitor.update_reward(1, torch.tensor([9.0]))
    monitor.update_info(1, {"a": 9, "b": "text"})
    assert monitor.is_finished()
    assert monitor.get_episode_return() == [1.0, 2.0, 9.0]
    assert monitor.get_episode_info()["a_mean"] == 4.0
    assert "b_mean" not in monitor.get_episode_info()
    with pytest.raises(AssertionError, match="at least env_num"):
        VectorEvalMonitor(3, 2)


def test_outputs_of_the_worst_median_and_best_episode() -> None:
    monitor = VectorEvalMonitor(1, 5)
    for value in (3, 1, 5, 2, 4):
        monitor.update_output({0: f"first of {value}"})
        monitor.update_output({0: f"second of {value}"})
        monitor.update_reward(0, value)
    assert monitor.get_episode_output() == [[f"first of {n}", f"second of {n}"] for n in (1, 3, 4, 5)]


class Images(BaseEnvManagerV2):
    """A manager with a picture of each env that is ready."""

    @property
    def ready_imgs(self):
        return {env_id: np.full((2, 2, 3), env_id, dtype=np.uint8) for env_id in range(self.env_num)}


def test_video_and_outputs() -> None:
    envs = [lambda length=length: CountingEnv({"episode_length": length}) for length in (2, 4)]
    env, ctx = Images(envs, cfg=Images.default_config()), OnlineRLContext()
    interaction_evaluator(config(n_episode=2), ScriptedPolicy().eval_mode, env, render=True)(ctx)
    video = ctx.eval_output["replay_video"]
    assert video.shape == (2, 4, 3, 2, 2)
    assert [len(outputs) for outputs in ctx.eval_output["output"]] == [2, 4]


class TreePolicy:
    _device = "cpu"

    def eval(self, obs) -> EasyDict:
        return EasyDict(action=torch.zeros(len(obs), dtype=torch.int64))

    def process_transition(self, obs, output, timestep):
        raise NotImplementedError

    def reset(self, ids=None) -> None:
        pass


def test_a_policy_of_trees() -> None:
    ctx = OnlineRLContext(train_iter=1)
    evaluate = interaction_evaluator_ttorch(0, TreePolicy(), manager(3, 7), stop_value=17, eval_freq=5)
    evaluate(ctx)
    assert ctx.eval_output["episode_return"] == [6.0, 28.0]
    assert task.finish


class Accuracy(IMetric):
    def eval(self, inputs, label):
        return float((inputs == label).float().mean())

    def reduce_mean(self, inputs):
        return sum(inputs) / len(inputs)

    def gt(self, metric1, metric2) -> bool:
        return metric1 > metric2


def test_a_metric_over_a_data_set() -> None:
    class Same:
        def forward(self, data):
            return data

        def reset(self, data_id=None) -> None:
            pass

    dataset = [(torch.tensor(value), torch.tensor(0)) for value in (0, 0, 1, 0)]
    ctx = OfflineRLContext(train_iter=1)
    metric_evaluator(config(stop_value=0.7), Same(), dataset, Accuracy())(ctx)
    assert (ctx.eval_value, ctx.last_eval_iter, task.finish) == (0.75, 1, True)
