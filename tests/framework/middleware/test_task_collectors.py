"""Collectors of a task: which transitions they give, whole episodes, counts, and random actions at first."""

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.envs import BaseEnvManagerV2
from ding.envs.testing import CountingEnv
from ding.framework import OnlineRLContext
from ding.framework.middleware import (
    EpisodeCollector,
    PPOFStepCollector,
    StepCollector,
    TransitionList,
    inferencer,
    rolloutor,
)
from ding.worker.testing import BatchedScriptedPolicy, ScriptedPolicy


def manager(*lengths: int) -> BaseEnvManagerV2:
    envs = [lambda length=length: CountingEnv({"episode_length": length}) for length in lengths]
    return BaseEnvManagerV2(envs, cfg=BaseEnvManagerV2.default_config())


def config(**collect: int) -> EasyDict:
    return EasyDict(seed=0, policy=dict(collect=collect))


def steps_of(rows) -> list[int]:
    """The number of each step within its episode, which is its reward."""
    return [int(row["reward"][0]) for row in rows]


POLICIES = pytest.mark.parametrize("policy_class", [ScriptedPolicy, BatchedScriptedPolicy])


@POLICIES
def test_steps_come_environment_by_environment(policy_class) -> None:
    collector = StepCollector(config(n_sample=6), policy_class().collect_mode, manager(3, 7))
    ctx = OnlineRLContext(train_iter=4)
    collector(ctx)
    assert steps_of(ctx.trajectories) == [1, 2, 3, 1, 2, 3]
    assert ctx.trajectory_end_idx == [2, 5]
    assert (ctx.env_step, ctx.env_episode) == (6, 1)
    first = ctx.trajectories[0]
    assert {*first} >= {"obs", "next_obs", "action", "reward", "done", "collect_train_iter", "env_data_id"}
    assert first.reward.shape == first.collect_train_iter.shape == first.env_data_id.shape == (1,)
    assert int(first.collect_train_iter) == 4
    assert [bool(row.done) for row in ctx.trajectories] == [False, False, True, False, False, False]
    # The last observation of an episode is its own, not the one of the reset.
    assert ctx.trajectories[2].next_obs.tolist() == [0.0, 3.0]
    collector(ctx)
    assert steps_of(ctx.trajectories) == [1, 2, 3, 4, 5, 6]
    assert ctx.trajectories[0].obs.tolist() == [1.0, 0.0]


@POLICIES
def test_episodes_are_numbered(policy_class) -> None:
    collector = StepCollector(config(n_sample=14), policy_class().collect_mode, manager(3, 7))
    ctx = OnlineRLContext()
    collector(ctx)
    numbers = [int(row["env_data_id"][0]) for row in ctx.trajectories]
    assert numbers[:7] == [0, 0, 0, 2, 2, 2, 4]
    assert set(numbers[7:]) == {1}


def test_columns_stay_columns() -> None:
    collector = StepCollector(config(n_sample=6, unroll_len=2), BatchedScriptedPolicy().collect_mode, manager(3, 7))
    ctx = OnlineRLContext()
    collector(ctx)
    assert isinstance(ctx.trajectories, TransitionBatch)
    assert ctx.trajectories.reward.shape == (12, 1)
    assert ctx.trajectories["env_data_id"].dtype == torch.int64


def test_random_actions_at_first() -> None:
    policy = ScriptedPolicy()
    collector = StepCollector(config(n_sample=6), policy.collect_mode, manager(3, 7), random_collect_size=16)
    ctx = OnlineRLContext()
    collector(ctx)
    assert (len(ctx.trajectories), ctx.env_step) == (16, 16)
    assert policy.forwards == []
    collector(ctx)
    assert (len(ctx.trajectories), ctx.env_step) == (6, 22)
    assert policy.forwards[0][0] == "collect"


def test_keyword_arguments_of_the_forward_come_from_the_context() -> None:
    policy = ScriptedPolicy()
    ctx = OnlineRLContext(collect_kwargs={"eps": 0.5})
    StepCollector(config(n_sample=2), policy.collect_mode, manager(3, 7))(ctx)
    assert policy.forwards == [("collect", [0, 1], {"eps": 0.5})]


@POLICIES
def test_every_episode_is_whole(policy_class) -> None:
    collector = EpisodeCollector(config(n_episode=2), policy_class().collect_mode, manager(3, 7))
    ctx = OnlineRLContext()
    env_steps, episodes = [], []
    for _ in range(4):
        collector(ctx)
        env_steps.append(ctx.env_step)
        episodes += [steps_of(episode) for episode in ctx.episodes]
    assert env_steps == [12, 18, 28, 36]
    assert len(episodes) == ctx.env_episode == 8
    assert all(episode in ([1, 2, 3], [1, 2, 3, 4, 5, 6, 7]) for episode in episodes)
    assert sum(map(len, episodes)) == 32, "4 steps of the long env wait for the rest of their episode"


def test_on_policy_episodes_are_begun_and_finished_in_one_call() -> None:
    cfg = config(n_episode=3)
    cfg.policy.on_policy = True
    collector = EpisodeCollector(cfg, BatchedScriptedPolicy().collect_mode, manager(3, 7))
    ctx = OnlineRLContext()
    for call in (1, 2):
        collector(ctx)
        assert sorted(map(steps_of, ctx.episodes)) == [[1, 2, 3], [1, 2, 3], [1, 2, 3, 4, 5, 6, 7]]
        assert ctx.env_step == 13 * call


def test_random_episodes_at_first() -> None:
    policy = ScriptedPolicy()
    collector = EpisodeCollector(config(n_episode=1), policy.collect_mode, manager(3, 3), random_collect_size=4)
    ctx = OnlineRLContext()
    collector(ctx)
    assert (ctx.env_episode, policy.forwards) == (4, [])
    collector(ctx)
    assert policy.forwards


def test_positions_of_the_last_transitions() -> None:
    transitions = TransitionList(3)
    assert transitions.to_trajectories() == ([], [-1, -1, -1])
    for name, done in (("a", False), ("b", True)):
        transitions.append(1, {"name": name, "done": done})
    transitions.append(2, {"name": "c", "done": False})
    flat, ends = transitions.to_trajectories()
    assert [one["name"] for one in flat] == ["a", "b", "c"]
    assert ends == [-1, 1, 2]
    assert [[one["name"] for one in episode] for episode in transitions.to_episodes()] == [["a", "b"]]
    transitions.clear()
    assert transitions.to_episodes() == []


@POLICIES
def test_inference_and_rollout_by_hand(policy_class) -> None:
    policy, env, transitions = policy_class(action=1), manager(3, 7), TransitionList(2)
    infer = inferencer(0, policy.collect_mode, env)
    roll = rolloutor(policy.collect_mode, env, transitions)
    ctx = OnlineRLContext(train_iter=2)
    for _ in range(4):
        infer(ctx)
        assert ctx.obs.shape == (2, 2)
        assert [int(np.asarray(action).reshape(-1)[0]) for action in ctx.action] == [1, 1]
        assert int(ctx.inference_output[1].action) == 1
        roll(ctx)
    assert (ctx.env_step, ctx.env_episode) == (8, 1)
    flat, ends = transitions.to_trajectories()
    assert steps_of(flat) == [1, 2, 3, 1, 1, 2, 3, 4]
    assert ends == [3, 7]
    assert [int(one.env_data_id) for one in flat] == [0, 0, 0, 2, 1, 1, 1, 1]
    assert int(flat[0].collect_train_iter) == 2
    (episode,) = transitions.to_episodes()
    assert episode[-1].done


class TreePolicy:
    """One object for all modes, which takes and returns trees."""

    _device = "cpu"

    def __init__(self) -> None:
        self.resets: list[list[int] | None] = []

    def collect(self, obs, bias: int = 0) -> EasyDict:
        assert obs.dtype == torch.float32
        return EasyDict(action=torch.full((len(obs),), bias), value=obs.sum(1))

    def process_transition(self, obs, output, timestep) -> EasyDict:
        return EasyDict(
            obs=obs, action=output.action, value=output.value, reward=timestep.reward, done=timestep.done,
            next_obs=timestep.obs,
        )  # fmt: skip

    def reset(self, ids=None) -> None:
        self.resets.append(ids)


def test_a_policy_of_trees() -> None:
    policy = TreePolicy()
    collector = PPOFStepCollector(0, policy, manager(3, 7), n_sample=3, unroll_len=2)
    ctx = OnlineRLContext(collect_kwargs={"bias": 1})
    collector(ctx)
    assert steps_of(ctx.trajectories) == [1, 2, 3, 1, 2, 3]
    assert ctx.trajectory_end_idx == [2, 5]
    assert float(ctx.trajectories[1]["value"]) == 1.0
    assert int(ctx.trajectories[1]["action"]) == 1
    assert policy.resets == [[0]]
