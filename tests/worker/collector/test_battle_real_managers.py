"""Battle workers on the env managers that ship here: whose step is whose, also when envs answer later or break."""

from functools import partial

import numpy as np
import pytest
from easydict import EasyDict

from ding.envs import create_env_manager
from ding.envs.testing_game import CountingGame
from ding.worker import (
    BattleEpisodeSerialCollector,
    BattleInteractionSerialEvaluator,
    BattleSampleSerialCollector,
)
from ding.worker.testing import BatchedScriptedPolicy, ScriptedPolicy

POLICIES = pytest.mark.parametrize("policy_cls", [ScriptedPolicy, BatchedScriptedPolicy])
# In one process, in several that answer together or when they are ready, through shared memory or a pipe.
MANAGERS = pytest.mark.parametrize(
    "manager",
    [
        {"type": "base"},
        {"type": "subprocess"},
        {"type": "async_subprocess", "shared_memory": False},
    ],
    ids=["base", "subprocess", "async"],
)


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make(cls, policy_cls, manager, lengths, num_players, **cfg):
    """A worker on games that break off once at their third step."""
    settings = {"num_players": num_players, "abnormal_steps": [3]}
    games = [partial(CountingGame, {"episode_length": length, **settings}) for length in lengths]
    collect = {"n_sample": 6, "n_episode": len(lengths)}
    attributes = {"cfg": EasyDict(on_policy=False, collect=collect)}
    policies = [policy_cls(action=player, attributes=attributes) for player in range(num_players)]
    modes = [policy.eval_mode if "stop_value" in cfg else policy.collect_mode for policy in policies]
    return cls(EasyDict({**cls.default_config(), **cfg}), create_env_manager(EasyDict(manager), games), modes)


def check_rows(player, rows):
    for row in rows:
        assert int(row["obs"][0]) // 100 == player
        assert row["next_obs"].tolist() == [row["obs"][0], row["obs"][1] + 1]
        assert row["reward"].item() == (row["obs"][1] + 1) * (-1) ** player
        assert int(row["action"]) == player


@MANAGERS
@POLICIES
@pytest.mark.parametrize("num_players", [2, 3])
def test_samples(manager, policy_cls, num_players):
    collector = make(BattleSampleSerialCollector, policy_cls, manager, [3, 4], num_players)
    for _ in range(3):
        samples, infos = collector.collect()
        assert [len(rows) for rows in samples] == [6] * num_players
        for player, rows in enumerate(samples):
            check_rows(player, rows)
            returns = [info["eval_episode_return"] * (-1) ** player for info in infos[player]]
            assert set(returns) <= {6.0, 10.0}
    collector.close()


@MANAGERS
@POLICIES
def test_episodes(manager, policy_cls):
    collector = make(BattleEpisodeSerialCollector, policy_cls, manager, [3, 4], 2)
    episodes, infos = collector.collect(5)
    for player in range(2):
        assert len(episodes[player]) == len(infos[player]) == 5
        for episode in episodes[player]:
            check_rows(player, episode)
            assert [int(row["obs"][1]) for row in episode] == list(range(len(episode)))
            assert [row["done"] for row in episode] == [False] * (len(episode) - 1) + [True]
    collector.close()


@MANAGERS
@POLICIES
def test_evaluation(manager, policy_cls):
    evaluator = make(BattleInteractionSerialEvaluator, policy_cls, manager, [3, 4], 3, stop_value=99, n_episode=5)
    _, infos = evaluator.eval(train_iter=1)
    for player, of_player in enumerate(infos):
        returns = [(-1) ** player * info["eval_episode_return"] for info in of_player]
        assert sorted(returns) == [6.0] * 3 + [10.0] * 2
    evaluator.close()


def test_a_step_of_a_game_that_failed_is_without_reward():
    fault = {"kind": "raise", "step": 2, "episode": 0}
    games = [partial(CountingGame, {"fault": fault}), partial(CountingGame, {})]
    manager = create_env_manager(EasyDict(type="subprocess", max_retry=3), games)
    manager.launch()
    try:
        actions = {0: [0, 0], 1: [0, 0]}
        first, second = manager.step(actions), manager.step(actions)
        assert [first[env_id].reward.tolist() for env_id in (0, 1)] == [[[1.0], [-1.0]]] * 2
        assert second[0].info["abnormal"] is True
        assert [np.ravel(second[env_id].reward).tolist() for env_id in (0, 1)] == [[0.0, 0.0], [2.0, -2.0]]
    finally:
        manager.close()
