"""Collectors of a task in which several policies play: what each player's policy sees and gets, and what is counted."""

import pytest
from easydict import EasyDict

from ding.framework import OnlineRLContext
from ding.framework.middleware import BattleEpisodeCollector, BattleStepCollector
from ding.utils import SeedTree
from ding.worker.testing import ScriptedEnvManager, ScriptedPolicy


class Player(ScriptedPolicy):
    """A policy whose collect mode says whether its steps are recorded."""

    def collect(self, collect_data: bool = True):
        mode = self.collect_mode
        return type("Mode", (), {**mode._asdict(), "collect_data": collect_data})


class Env(ScriptedEnvManager):
    """A game of two players."""

    def __init__(self, *lengths: int) -> None:
        super().__init__([[length] for length in lengths], num_players=2)
        self.seeds: list[int] = []

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)


def config(**collect: int) -> EasyDict:
    return EasyDict(seed=0, policy=dict(collect=collect))


def seen(rows) -> list[tuple[int, ...]]:
    """Env id and step of each transition; the observations of player 1 are those of player 0 plus 100."""
    return [tuple(int(value) for value in row["obs"]) for row in rows]


def test_steps_of_two_players() -> None:
    policies = [Player(), Player()]
    env = Env(3, 2)
    collector = BattleStepCollector(config(n_sample=6), [policy.collect() for policy in policies], env)
    ctx = OnlineRLContext(train_iter=4, collect_kwargs={"eps": 0.5})
    collector(ctx)
    assert [seen(player) for player in ctx.trajectories] == [
        [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 0)],
        [(100, 100), (100, 101), (100, 102), (101, 100), (101, 101), (101, 100)],
    ]
    assert ctx.trajectory_end_idx == [[2, 5], [2, 5]]
    assert [[int(row["reward"]) for row in player] for player in ctx.trajectories] == [[1] * 6, [-1] * 6]
    assert [bool(row.done) for row in ctx.trajectories[1]] == [False, False, True, False, True, False]
    assert {int(row.collect_train_iter) for player in ctx.trajectories for row in player} == {4}
    assert (ctx.env_step, ctx.env_episode) == (6, 2)
    assert env.seeds == [SeedTree(0).env_seeds(2, "collector")]
    assert policies[1].forwards == [("collect", [0, 1], {"eps": 0.5})] * 3


def test_a_player_that_is_not_recorded() -> None:
    policies = [Player(), Player()]
    env = Env(3, 3)
    modes = [policies[0].collect(), policies[1].collect(collect_data=False)]
    collector = BattleStepCollector(config(n_sample=2), modes, env)
    ctx = OnlineRLContext()
    collector(ctx)
    assert [len(player) for player in ctx.trajectories] == [2, 0]
    assert ctx.trajectory_end_idx == [[0, 1], []]
    assert len(policies[1].forwards) == 1


def test_whole_episodes_of_two_players() -> None:
    env = Env(3, 2)
    collector = BattleEpisodeCollector(config(n_episode=3), [Player().collect(), Player().collect()], env)
    ctx = OnlineRLContext()
    collector(ctx)
    for player in ctx.episodes:
        assert sorted(map(len, player)) == [2, 2, 3]
        assert all(bool(episode[-1].done) for episode in player)
    assert (ctx.env_step, ctx.env_episode) == (7, 3)


@pytest.mark.parametrize("collector_class", [BattleStepCollector, BattleEpisodeCollector])
def test_one_policy_is_no_battle(collector_class) -> None:
    with pytest.raises(ValueError, match="policies: 1, but a battle needs one per player, at least two"):
        collector_class(config(n_sample=1), [Player().collect()], Env(3))
