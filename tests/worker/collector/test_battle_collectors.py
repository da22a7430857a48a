"""Battle collectors on scripted games: what each player's policy sees, what comes back, and what is counted."""

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.worker import BattleEpisodeSerialCollector, BattleSampleSerialCollector
from ding.worker.testing import ScriptedEnvManager, ScriptedPolicy

BOTH = pytest.mark.parametrize("cls", [BattleSampleSerialCollector, BattleEpisodeSerialCollector])


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Player(ScriptedPolicy):
    """The attributes that battle collectors read. ``collect_data``: as a plain attribute, where it is given."""

    def __init__(self, n_sample=None, n_episode=None, on_policy=False, collect_data=None):
        collect = {"n_sample": n_sample, "n_episode": n_episode}
        super().__init__(attributes={"cfg": EasyDict(on_policy=on_policy, collect=collect)})
        self.process_transition = self._process_transition
        self.get_train_sample = self._get_train_sample
        self.forward, self.reset, self.get_attribute = self._forward_collect, self._reset_collect, self._get_attribute
        if collect_data is not None:
            self.collect_data = collect_data


class Writer:
    def __init__(self):
        self.scalars = {}

    def add_scalar(self, tag, value, step):
        self.scalars[tag] = (value, step)

    def flush(self):
        pass


def make_collector(cls, lengths, policies, env_cls=ScriptedEnvManager, writer=None, **cfg):
    env = env_cls([[length] for length in lengths], num_players=len(policies))
    cfg = EasyDict({**cls.default_config(), **cfg})
    return cls(cfg, env, policies, tb_logger=writer, exp_name="exp", instance_name="col")


def seen(rows):
    """(what the player's observation adds to the env id, env id and step) of each transition."""
    return [tuple(int(v) for v in row["obs"]) for row in rows]


def test_samples_of_two_players():
    policies = [Player(n_sample=4), Player(n_sample=4)]
    collector = make_collector(BattleSampleSerialCollector, [3, 2], policies)
    # Pieces of two steps: env 1 ends with its piece, env 0 one step later.
    samples, infos = collector.collect(5, train_iter=7, policy_kwargs={"eps": 0.5})
    assert seen(samples[0]) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2)]
    assert seen(samples[1]) == [(100, 100), (100, 101), (101, 100), (101, 101), (100, 102)]
    assert [row["reward"].item() for row in samples[1]] == [-1.0] * 5
    assert [row["done"] for row in samples[0]] == [False, False, False, True, True]
    assert {row["collect_iter"] for player in samples for row in player} == {7}
    assert [[info["eval_episode_return"] for info in player] for player in infos] == [[2.0, 3.0], [-2.0, -3.0]]
    assert collector.envstep == 6
    assert policies[0].forwards == [("collect", [0, 1], {"eps": 0.5})] * 3
    assert policies[1].resets == [("collect", None), ("collect", [1]), ("collect", [0])]
    # Env 1 had begun a piece of one step, which waits.
    assert seen(collector.collect(2)[0][0]) == [(1, 0), (1, 1)]


@pytest.mark.parametrize("drop_extra", [True, False])
def test_what_is_beyond_n_sample(drop_extra):
    collector = make_collector(BattleSampleSerialCollector, [4, 4], [Player(n_sample=4), Player(n_sample=4)])
    samples, _ = collector.collect(1, drop_extra=drop_extra)
    assert [len(player) for player in samples] == ([1, 1] if drop_extra else [4, 4])


def test_pieces_wait_for_the_next_call_on_policy_too():
    policies = [Player(n_sample=6, on_policy=True), Player(n_sample=6, on_policy=True)]
    collector = make_collector(BattleSampleSerialCollector, [2, 9], policies)
    assert seen(collector.collect(2)[0][0]) == [(0, 0), (0, 1)]
    assert seen(collector.collect(3)[0][0]) == [(1, 0), (1, 1), (1, 2)]


def test_pieces_outlive_a_change_of_policies():
    collector = make_collector(BattleSampleSerialCollector, [2, 9], [Player(n_sample=8), Player(n_sample=8)])
    collector.collect(2)
    # Pieces of one step now; that of env 1 has two already.
    collector.reset_policy([Player(n_sample=2), Player(n_sample=2)])
    assert seen(collector.collect(4)[0][0]) == [(0, 0), (1, 0), (1, 1), (1, 2)]
    collector = make_collector(BattleEpisodeSerialCollector, [2, 3], [Player(n_episode=2), Player(n_episode=2)])
    collector.collect()
    collector.reset_policy([Player(n_episode=3), Player()])
    assert [len(episode) for episode in collector.collect()[0][0]] == [2, 3, 2]


@BOTH
@pytest.mark.parametrize("late", [False, True])
def test_another_env_manager_begins_anew(cls, late):
    policies = [Player(n_sample=6, n_episode=3), Player(n_sample=6, n_episode=3)]
    collector = make_collector(cls, [9, 1], policies)
    collector.collect(2)
    if late:
        collector.reset_env(ScriptedEnvManager([[2], [2], [2]], num_players=2))
    else:
        collector.reset(None, ScriptedEnvManager([[2], [2], [2]], num_players=2))
    data, _ = collector.collect()
    rows = data[1] if cls is BattleSampleSerialCollector else [row for episode in data[1] for row in episode]
    assert seen(rows) == [(100, 100), (100, 101), (101, 100), (101, 101), (102, 100), (102, 101)]
    assert [episode["step"] for episode in collector.state_dict()["episode_info"]][-3:] == [2, 2, 2]


def test_samples_are_recorded_of_the_policies_that_want_it():
    policies = [Player(n_sample=4), Player(collect_data=False), Player(collect_data=True)]
    collector = make_collector(BattleSampleSerialCollector, [3, 2], policies)
    samples, infos = collector.collect(5)
    assert [len(player) for player in samples] == [5, 0, 5]
    assert [len(player) for player in infos] == [2, 2, 2]


@pytest.mark.parametrize("get_train_sample", [False, True])
def test_episodes_are_recorded_of_both_policies(get_train_sample):
    policies = [Player(n_episode=3, collect_data=False), Player()]
    collector = make_collector(BattleEpisodeSerialCollector, [3, 2], policies, get_train_sample=get_train_sample)
    episodes, infos = collector.collect(train_iter=4)
    rows = [[row for episode in player for row in episode] for player in episodes]
    if get_train_sample:
        rows = episodes
    else:
        assert [[len(episode) for episode in player] for player in episodes] == [[2, 3, 2]] * 2
    assert seen(rows[0]) == [(1, 0), (1, 1), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert [row["collect_iter"] for row in rows[1]] == [4] * 7
    assert [info["eval_episode_return"] for info in infos[1]] == [-2.0, -3.0, -2.0]
    # Env 0 is not started again.
    assert collector.envstep == 7
    with pytest.raises(AssertionError, match=r"n_episode is 1, but env\.collector_env_num is 2"):
        collector.collect(1)


class IntegerGame(ScriptedEnvManager):
    """A game that shows integers."""

    @property
    def ready_obs(self):
        return {env_id: [obs.astype(np.int64) for obs in players] for env_id, players in super().ready_obs.items()}


@BOTH
@pytest.mark.parametrize("transform", [False, True])
def test_policies_get_float_tensors_where_it_is_asked_for(cls, transform):
    policies = [Player(), Player()]
    collector = make_collector(cls, [3, 2], policies, IntegerGame, transform_obs=transform)
    data, _ = collector.collect(2)
    obs = policies[1].inputs[0][0]
    assert obs.dtype == (torch.float32 if transform else np.int64)
    row = data[0][0] if cls is BattleSampleSerialCollector else data[0][0][0]
    assert row["obs"].dtype == torch.int64


@BOTH
def test_logs_and_tags(cls):
    writer = Writer()
    collector = make_collector(cls, [2, 2], [Player(), Player()], writer=writer)
    collector.collect(4, train_iter=99)
    assert writer.scalars == {}
    episodes = 2 if cls is BattleSampleSerialCollector else 4
    collector.collect(4, train_iter=100)
    expected = {
        "episode_count": 2 * episodes,
        "envstep_count": 4 * episodes,
        "avg_envstep_per_episode": 2.0,
        "total_episode_count": 2 * episodes,
        **{f"reward0_{name}": value for name, value in zip(("mean", "std", "max", "min"), (2.0, 0.0, 2.0, 2.0))},
        **{f"reward1_{name}": value for name, value in zip(("mean", "std", "max", "min"), (-2.0, 0.0, -2.0, -2.0))},
    }
    for key, value in expected.items():
        assert writer.scalars[f"col_iter/{key}"] == (value, 100), key
        assert writer.scalars[f"col_step/{key}"] == (value, 4 * episodes), key
    timed = {"avg_envstep_per_sec", "avg_episode_per_sec", "collect_time", "total_duration"}
    assert {tag for tag in writer.scalars if tag.startswith("col_iter/")} == {
        f"col_iter/{key}" for key in {*expected, *timed, "total_envstep_count"}
    }
    assert "col_step/total_envstep_count" not in writer.scalars


@BOTH
def test_policies_may_come_as_a_tuple(cls):
    collector = make_collector(cls, [2, 3], (Player(), Player()))
    assert len(collector.collect(2)[0][1]) == 2
    with pytest.raises(AssertionError, match="found 1"):
        # A named tuple is one policy.
        collector.reset_policy(Player().collect_mode)


@pytest.mark.parametrize(("cls", "count"), [(BattleSampleSerialCollector, 1), (BattleEpisodeSerialCollector, 3)])
def test_the_number_of_policies(cls, count):
    with pytest.raises(AssertionError, match=f"found {count}"):
        make_collector(cls, [2], [Player() for _ in range(count)])


class OneArrayGame(ScriptedEnvManager):
    """Writes all observations of an env into the same array."""

    def observation(self, env_id):
        players = super().observation(env_id)
        if not hasattr(self, "_arrays"):
            self._arrays = {}
        for array, now in zip(self._arrays.setdefault(env_id, players), players):
            array[:] = now
        return self._arrays[env_id]


@BOTH
def test_observations_that_are_written_over_are_copied(cls):
    policies = [Player(n_sample=6), Player(n_sample=6)]
    collector = make_collector(cls, [3, 3], policies, OneArrayGame, deepcopy_obs=True)
    data, _ = collector.collect(6 if cls is BattleSampleSerialCollector else 2)
    rows = data[1] if cls is BattleSampleSerialCollector else [row for episode in data[1] for row in episode]
    assert seen(rows) == [(100 + env_id, 100 + t) for env_id in range(2) for t in range(3)]
    # The observation after the last step is the first of the next episode by then, so only the others are looked at.
    assert [int(row["next_obs"][1]) for row in rows if not row["done"]] == [101, 102] * 2
