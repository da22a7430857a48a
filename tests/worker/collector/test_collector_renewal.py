"""Serial collectors when policy or env manager change, and what ``transform_obs`` and ``deepcopy_obs`` do to data."""

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.worker import EpisodeSerialCollector, SampleSerialCollector
from ding.worker.collector.base_serial_collector import CachePool
from ding.worker.testing import BatchedScriptedPolicy, ScriptedEnvManager, ScriptedPolicy

BOTH = pytest.mark.parametrize("policy_cls", [ScriptedPolicy, BatchedScriptedPolicy])
FORMS = pytest.mark.parametrize("in_columns", [False, True])


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_policy(policy_cls, n_sample=None, n_episode=None):
    cfg = EasyDict(type="scripted", traj_len_inf=False, on_policy=False, collect={}, learn={})
    return policy_cls(attributes={"n_sample": n_sample, "n_episode": n_episode, "cfg": cfg})


def make_collector(cls, env, policy, **cfg):
    return cls(EasyDict({**cls.default_config(), **cfg}), env=env, policy=policy.collect_mode)


def game(*lengths, **kwargs):
    return ScriptedEnvManager([[length] for length in lengths], **kwargs)


def seen(rows):
    """(env id, step) of each transition."""
    return [tuple(int(v) for v in row["obs"]) for row in rows]


@BOTH
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("n_sample", [2, 6, None])
@pytest.mark.parametrize("lengths", [[2, 2], [2, 2, 2]])
def test_another_env_manager_begins_anew(policy_cls, late, n_sample, lengths) -> None:
    first = game(9, 1)
    collector = make_collector(SampleSerialCollector, first, make_policy(policy_cls, n_sample))
    collector.collect(1)
    second = game(*lengths)
    if late:
        collector.reset_env(second)
    else:
        collector.reset(None, second)
    first.close()
    samples = collector.collect(2 * len(lengths))
    assert sorted(seen(samples)) == [(env_id, t) for env_id in range(len(lengths)) for t in range(2)]
    assert len(first.actions[0]) == 1
    collector.close()
    assert second.closed


@BOTH
def test_another_env_manager_for_episodes(policy_cls) -> None:
    collector = make_collector(EpisodeSerialCollector, game(5, 1), make_policy(policy_cls, n_episode=3))
    collector.collect()
    collector.reset_env(game(2, 3, 1))
    assert [len(episode) for episode in collector.collect()] == [1, 2, 3]


@BOTH
def test_the_length_of_pieces_follows_the_number_of_environments(policy_cls) -> None:
    collector = make_collector(SampleSerialCollector, game(9, 9), make_policy(policy_cls, 6))
    collector.reset_env(game(9, 9, 9))
    assert seen(collector.collect()) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


@BOTH
def test_parts_that_come_one_by_one_need_no_reset(policy_cls) -> None:
    collector = SampleSerialCollector(SampleSerialCollector.default_config())
    collector.reset_env(game(3, 3))
    collector.reset_policy(make_policy(policy_cls, 4).collect_mode)
    assert seen(collector.collect()) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@BOTH
@pytest.mark.parametrize("after", [2, 4, 8, None])
@pytest.mark.parametrize("before", [2, 6, None])
def test_no_step_is_lost_to_a_policy_with_another_length_of_pieces(policy_cls, before, after) -> None:
    env = game(2, 9)
    collector = make_collector(SampleSerialCollector, env, make_policy(policy_cls, before))
    samples = list(collector.collect(2))
    collector.reset_policy(make_policy(policy_cls, after).collect_mode)
    while env.num_episodes[1] < 3:
        samples += collector.collect(1)
    samples += collector.collect(0, drop_extra=False)
    assert [step for step in seen(samples) if step[0] == 1] == [(1, t) for _ in range(2) for t in range(9)]


@BOTH
def test_nothing_is_asked_for(policy_cls) -> None:
    collector = make_collector(SampleSerialCollector, game(2, 2), make_policy(policy_cls, 4))
    assert list(collector.collect(0)) == []
    assert collector.envstep == 0


@BOTH
@pytest.mark.parametrize("level_seeds", [(11, 22), {0: 11, 1: 22}, np.array([11, 22])])
def test_level_seeds_by_env_id(policy_cls, level_seeds) -> None:
    collector = make_collector(SampleSerialCollector, game(2, 2), make_policy(policy_cls, 2))
    assert [int(row["seed"]) for row in collector.collect(4, level_seeds=level_seeds)] == [11, 22, 11, 22]


def default(cls, **cfg):
    return EasyDict({**cls.default_config(), **cfg})


def test_what_is_no_env_manager_and_no_policy_is_told() -> None:
    cfg = default(SampleSerialCollector)
    with pytest.raises(TypeError, match=r"expected an env manager .*, found list"):
        SampleSerialCollector(cfg, [1], make_policy(ScriptedPolicy).collect_mode)
    with pytest.raises(TypeError, match=r"expected policy\.collect_mode, found an object ScriptedPolicy"):
        SampleSerialCollector(cfg, game(3), make_policy(ScriptedPolicy))
    with pytest.raises(
        KeyError, match="collector config has no key 'collect_print_freq'; did you mean 'collect_print_frq'"
    ):
        SampleSerialCollector(EasyDict(collect_print_frq=3), game(3), make_policy(ScriptedPolicy).collect_mode)


@pytest.mark.parametrize("target", ["8", 2.5, [3]])
def test_the_target_is_a_whole_number(target) -> None:
    for cls, name in ((SampleSerialCollector, "n_sample"), (EpisodeSerialCollector, "n_episode")):
        collector = make_collector(cls, game(2, 2), make_policy(ScriptedPolicy))
        with pytest.raises(TypeError, match=f"{name} must be an int, found "):
            collector.collect(target)
        assert len(collector.collect(np.int64(2))) == 2


def test_a_closed_manager_is_told() -> None:
    collector = make_collector(SampleSerialCollector, game(2, 2), make_policy(ScriptedPolicy, 4))
    collector.close()
    with pytest.raises(RuntimeError, match="the env manager is closed"):
        collector.collect()
    collector.reset_env(game(3, 3))
    assert seen(collector.collect()) == [(0, 0), (0, 1), (1, 0), (1, 1)]


class Silent(ScriptedPolicy):
    """Has no answer for env 1."""

    def _forward_collect(self, data, **kwargs):
        return {env_id: row for env_id, row in super()._forward_collect(data, **kwargs).items() if env_id != 1}


@FORMS
@pytest.mark.parametrize("cls", [SampleSerialCollector, EpisodeSerialCollector])
def test_a_policy_that_leaves_an_env_out_is_told(cls, in_columns) -> None:
    env = game(2, 2, 2, in_columns=in_columns)
    with pytest.raises(ValueError, match=r"no output for the envs \[1\]"):
        make_collector(cls, env, make_policy(Silent)).collect(4)


class IntegerGame(ScriptedEnvManager):
    """Shows integers."""

    def observation(self, env_id):
        return super().observation(env_id).astype(np.int64)


@BOTH
@FORMS
@pytest.mark.parametrize("n_sample", [2, 4])
def test_transformed_observations_are_for_the_policy_only(policy_cls, in_columns, n_sample) -> None:
    policy = make_policy(policy_cls, n_sample)
    env = IntegerGame([[3], [3]], in_columns=in_columns)
    collector = make_collector(SampleSerialCollector, env, policy, transform_obs=True)
    samples = collector.collect()
    assert dict(policy.inputs[0])[0].dtype == torch.float32
    assert {row[key].dtype for row in samples for key in ("obs", "next_obs")} == {torch.int64}


class OneArrayGame(ScriptedEnvManager):
    """Observations of different shapes, in pairs, written into the arrays that were handed out before."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._arrays = [np.zeros(1), np.zeros(2)]

    def observation(self, env_id):
        self._arrays[env_id][:] = self._time[env_id]
        return (self._arrays[env_id],)


@FORMS
@pytest.mark.parametrize("n_sample", [2, 4])
def test_copied_observations_may_have_any_form(in_columns, n_sample) -> None:
    env = OneArrayGame([[3], [3]], in_columns=in_columns)
    collector = make_collector(SampleSerialCollector, env, make_policy(ScriptedPolicy, n_sample), deepcopy_obs=True)
    rows = collector.collect(4)
    assert [row["obs"][0].tolist() for row in rows if len(row["obs"][0]) == 2] == [[0.0, 0.0], [1.0, 1.0]]


class Recurrent(ScriptedPolicy):
    """Counts the steps of an env in an array that it changes in place."""

    hidden = torch.zeros(2, 1)

    def _forward_collect(self, data, **kwargs):
        self.hidden[list(data)] += 1
        return {i: {"action": torch.tensor([0]), "hidden": self.hidden[i]} for i in data}

    def _process_transition(self, obs, policy_output, timestep):
        rest = {"next_obs": timestep.obs, "reward": timestep.reward, "done": timestep.done}
        return {"obs": obs, **policy_output, **rest}


def test_transitions_are_copies_too(monkeypatch) -> None:
    monkeypatch.setattr(Recurrent, "hidden", torch.zeros(2, 1))
    env = ScriptedEnvManager([[4], [4]])
    rows = make_collector(SampleSerialCollector, env, make_policy(Recurrent, 8), deepcopy_obs=True).collect()
    assert [row["hidden"].item() for row in rows] == [1, 2, 3, 4] * 2


class DoubleGame(ScriptedEnvManager):
    """Shows numbers of double precision."""

    def observation(self, env_id):
        return super().observation(env_id).astype(np.float64)


@BOTH
@FORMS
@pytest.mark.parametrize("n_sample", [2, 4])
def test_double_precision_becomes_single(policy_cls, in_columns, n_sample) -> None:
    env = DoubleGame([[3], [3]], in_columns=in_columns)
    samples = make_collector(SampleSerialCollector, env, make_policy(policy_cls, n_sample)).collect()
    assert {row[key].dtype for row in samples for key in ("obs", "next_obs")} == {torch.float32}


@pytest.mark.parametrize("n_sample", [2, 4])
def test_what_is_written_into_samples_does_not_come_back(n_sample) -> None:
    collector = make_collector(SampleSerialCollector, game(9, 9), make_policy(BatchedScriptedPolicy, n_sample))
    collector.collect(train_iter=3).columns["collect_iter"][:] = 7
    assert [row["collect_iter"] for row in collector.collect(train_iter=3)] == [3] * n_sample


def test_a_cache_pool_gives_bare_values_lists_and_nothing() -> None:
    pool = CachePool("obs", 2)
    pool.update({0: "a", 1: "b"})
    assert (pool[0], pool[1]) == ("a", "b")
    pool.update([{0: "c"}, {0: "d"}])
    assert (pool[0], pool[1]) == (["c", "d"], "b")
    pool.reset(0)
    assert (pool[0], pool[1]) == (None, "b")


@BOTH
def test_totals_of_episodes(policy_cls) -> None:
    policy = make_policy(policy_cls, n_episode=2)
    env, shaped = game(2, 3), []
    collector = make_collector(EpisodeSerialCollector, env, policy, reward_shaping=True)
    env.reward_shaping = lambda env_id, episode: shaped.append((env_id, len(episode)))
    collector.collect()
    collector.collect()
    state = collector.state_dict()
    assert (state["total_episode_count"], state["total_envstep_count"]) == (4, 10)
    assert state["total_duration"] == pytest.approx(sum(episode["time"] for episode in state["episode_info"]))
    assert shaped == [(0, 2), (1, 3)] * 2
    assert policy.resets == [("collect", None), *[("collect", [0]), ("collect", [1])] * 2]


@BOTH
def test_random_episodes_are_not_logged_and_each_duration_counts_once(policy_cls) -> None:
    collector = make_collector(SampleSerialCollector, game(2, 2), make_policy(policy_cls, 4))
    collector.collect(random_collect=True, record_random_collect=False)
    state = collector.state_dict()
    assert (state["total_episode_count"], state["episode_info"]) == (2, [])
    collector.collect()
    collector.collect()
    after = collector.state_dict()
    seconds = sum(episode["time"] for episode in after["episode_info"])
    assert after["total_duration"] - state["total_duration"] == pytest.approx(seconds)
