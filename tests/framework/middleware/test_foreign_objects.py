"""Middleware with policies and envs of other makes: mocks of ``unittest.mock`` and small classes with arrays."""

from typing import Any
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import DequeBuffer
from ding.framework import OnlineRLContext, task
from ding.framework.middleware import CkptSaver, EpisodeCollector, HERLearner, OffPolicyLearner, StepCollector
from ding.framework.middleware.functional import (
    TransitionList,
    inferencer,
    interaction_evaluator,
    multistep_trainer,
    rolloutor,
    trainer,
)


class Tree:
    """As ``treetensor`` has it: attributes, and ``json`` makes a dict of it."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def json(self) -> dict[str, Any]:
        return {key: value.json() if isinstance(value, Tree) else value for key, value in vars(self).items()}


def steps(env: Any, actions: Any) -> list[Tree]:
    """Episodes of env i end every i + 2 steps."""
    assert isinstance(actions, list)
    assert len(actions) == env.env_num
    env.counts = [count + 1 for count in env.counts]
    done = [count % (env_id + 2) == 0 for env_id, count in enumerate(env.counts)]
    return [
        Tree(
            obs=np.full(4, count, np.float32),
            reward=np.array([1.0], np.float32),
            done=np.array([is_done]),
            info=Tree(eval_episode_return=np.array([float(env_id + 2)])) if is_done else Tree(),
            env_id=np.array([env_id]),
        )
        for env_id, (count, is_done) in enumerate(zip(env.counts, done))
    ]


class MockEnv(Mock):
    """A manager with an own constructor, so that it cannot make up attributes."""

    def __init__(self, dicts: bool = False) -> None:
        super().__init__()
        self.env_num, self.closed, self.counts, self.dicts = 2, True, [0, 0], dicts
        self.action_space = gymnasium.spaces.Discrete(2)

    def seed(self, seed: Any, dynamic_seed: bool | None = None) -> None:
        self.seeds = seed

    def launch(self, reset_param: Any = None) -> None:
        self.closed = False

    def reset(self, reset_param: Any = None) -> None:
        self.counts = [0, 0]

    @property
    def ready_obs(self) -> Any:
        obs = np.array([np.full(4, count, np.float64) for count in self.counts])
        return Tree(observation=obs, action_mask=np.ones((2, 2))) if self.dicts else obs

    def step(self, action: Any) -> list[Tree]:
        return steps(self, action)


class SmallEnv:
    """The same without ``Mock``, as short as it can be."""

    env_num = 2
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.closed, self.counts = True, [0, 0]

    seed, launch, reset = MockEnv.seed, MockEnv.launch, MockEnv.reset
    dicts = False
    ready_obs = MockEnv.ready_obs
    step = MockEnv.step


def forward(self: Any, obs: dict[int, Any], **kwargs: Any) -> dict[int, Any]:
    self.seen = obs
    return {env_id: {"action": torch.tensor([env_id])} for env_id in obs}


def process_transition(self: Any, obs: Any, output: Any, timestep: Any) -> dict[str, Any]:
    return {"obs": obs, "next_obs": timestep.obs, "reward": timestep.reward, "done": timestep.done, **output}


class MockPolicy(Mock):
    """A collect or eval mode with an own constructor."""

    def __init__(self) -> None:
        super().__init__()
        self.resets: list[Any] = []

    def reset(self, data_id: Any = None) -> None:
        self.resets.append(data_id)


class SmallPolicy:
    def __init__(self) -> None:
        self.resets: list[Any] = []

    reset = MockPolicy.reset


for cls in (MockPolicy, SmallPolicy):
    cls.forward, cls.process_transition = forward, process_transition  # type: ignore[attr-defined]

KINDS = pytest.mark.parametrize(
    ("env_cls", "policy_cls"), [(MockEnv, MockPolicy), (SmallEnv, SmallPolicy)], ids=["mock", "small"]
)


def config(**collect: Any) -> EasyDict:
    return EasyDict(
        seed=0,
        env={"n_evaluator_episode": 4, "stop_value": 100.0},
        policy={
            "collect": {"n_sample": 16, "unroll_len": 1, **collect},
            "eval": {"evaluator": {"eval_freq": 10}},
            "learn": {"batch_size": 4, "update_per_collect": 2},
        },
    )


@KINDS
def test_a_step_by_hand(env_cls: Any, policy_cls: Any) -> None:
    env, policy, ctx, kept = env_cls(), policy_cls(), OnlineRLContext(), TransitionList(2)
    infer, roll = inferencer(0, policy, env), rolloutor(policy, env, kept)
    for _ in range(3):
        infer(ctx)
        roll(ctx)
    assert policy.seen[1].dtype == torch.float32
    assert ctx.obs.tolist() == [[2.0] * 4] * 2
    assert [action.tolist() for action in ctx.action] == [[0], [1]]
    assert (ctx.env_step, ctx.env_episode, policy.resets) == (6, 2, [[0], [1]])
    transitions, ends = kept.to_trajectories()
    assert ends == [2, 5]
    assert [float(one["next_obs"][0]) for one in transitions] == [1, 2, 3, 1, 2, 3]
    assert all(one["collect_train_iter"] == 0 for one in transitions)


def test_rows_of_trees_have_attributes() -> None:
    env, policy, ctx = MockEnv(dicts=True), MockPolicy(), OnlineRLContext()
    inferencer(0, policy, env)(ctx)
    assert policy.seen[1].observation.dtype == policy.seen[1]["observation"].dtype == torch.float32
    assert ctx.obs.observation.shape == (2, 4)


@KINDS
def test_collectors(env_cls: Any, policy_cls: Any) -> None:
    ctx = OnlineRLContext()
    StepCollector(config(), policy_cls(), env_cls())(ctx)
    assert (len(ctx.trajectories), ctx.trajectory_end_idx, ctx.env_step) == (16, [7, 15], 16)
    assert [int(one["action"]) for one in ctx.trajectories] == [0] * 8 + [1] * 8
    ctx = OnlineRLContext()
    EpisodeCollector(config(n_episode=3), policy_cls(), env_cls())(ctx)
    assert sorted(map(len, ctx.episodes)) == [2, 2, 3]
    ctx = OnlineRLContext()
    policy = policy_cls()
    collector = StepCollector(config(), policy, env_cls(), random_collect_size=8)
    collector(ctx)
    assert (len(ctx.trajectories), "seen" in vars(policy)) == (8, False)
    collector(ctx)
    assert len(ctx.trajectories) == 16


@KINDS
def test_evaluator(env_cls: Any, policy_cls: Any) -> None:
    with task.start():
        env, policy, ctx = env_cls(), policy_cls(), OnlineRLContext()
        evaluate = interaction_evaluator(config(), policy, env)
        evaluate(ctx)
        assert (ctx.eval_value, ctx.last_eval_iter) == (2.5, 0)
        ctx.train_iter = 5
        evaluate(ctx)
        assert ctx.last_eval_iter == 0
        ctx.train_iter = 10
        evaluate(ctx)
        assert ctx.last_eval_iter == 10


@pytest.mark.parametrize("with_constructor", [False, True])
def test_trainers(with_constructor: bool) -> None:
    class Learner(Mock):
        def __init__(self) -> None:
            super().__init__()

        def forward(self, data: Any) -> Any:
            return self_or(data)

    def self_or(data: Any) -> Any:
        return {"total_loss": 0.5}

    policy: Any = Learner() if with_constructor else Mock()
    if not with_constructor:
        policy.forward.side_effect = self_or
    ctx = OnlineRLContext()
    train = trainer(EasyDict(), policy)
    train(ctx)
    assert ctx.train_iter == 0
    ctx.train_data = {"obs": torch.zeros(2)}
    train(ctx)
    assert (ctx.train_iter, ctx.train_output) == (1, {"total_loss": 0.5})


def test_a_multistep_trainer_uses_the_device_of_a_mock() -> None:
    policy = Mock()
    policy.get_attribute.side_effect = {"device": "cpu"}.__getitem__
    policy.forward.side_effect = lambda data: [{"total_loss": 0.1}] * 3
    ctx = OnlineRLContext(train_data={"obs": torch.zeros(2)})
    multistep_trainer(policy)(ctx)
    assert ctx.train_iter == 3


@pytest.mark.parametrize("learner_cls", [OffPolicyLearner, HERLearner])
def test_learners(learner_cls: Any) -> None:
    buffer = DequeBuffer(20)
    for i in range(10):
        step = {"obs": torch.zeros(2), "action": torch.zeros(1), "reward": torch.zeros(1), "done": False, "i": i}
        buffer.push([step] if learner_cls is HERLearner else step)
    policy, her = Mock(), Mock()
    policy.forward.return_value = {"total_loss": 0.1}
    her.estimate.side_effect = lambda episode: [episode]
    her.episode_size = None
    arguments = (her,) if learner_cls is HERLearner else ()
    with task.start():
        ctx = OnlineRLContext(train_iter=0)
        learner_cls(config(), policy, buffer, *arguments)(ctx)
    assert ctx.train_iter == 2
    assert policy.forward.call_count == 2


def test_checkpoints_of_a_mock(tmp_path: Any) -> None:
    policy = Mock()
    policy.learn_mode.state_dict.return_value = {"model": {"weight": torch.ones(2)}}
    with task.start():
        CkptSaver(policy, str(tmp_path), train_freq=1)(OnlineRLContext(train_iter=1))
    assert (tmp_path / "ckpt" / "iteration_1.pth.tar").is_file()
