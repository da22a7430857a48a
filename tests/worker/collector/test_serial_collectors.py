"""Collectors on the counting env: which transitions come back, in which order, and what is counted."""

from functools import partial

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch, batched
from ding.envs import create_env_manager
from ding.envs.testing import CountingEnv
from ding.rl_utils import get_train_sample
from ding.worker import EpisodeSerialCollector, SampleSerialCollector, create_serial_collector, get_serial_collector_cls
from ding.worker.testing import BatchedScriptedPolicy, ScriptedPolicy

BOTH = pytest.mark.parametrize("policy_cls", [ScriptedPolicy, BatchedScriptedPolicy])


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_env(*lengths: int, kind: str = "base", **settings):
    cfgs = [EasyDict(episode_length=length, **settings) for length in lengths]
    return create_env_manager(EasyDict(type=kind), [partial(CountingEnv, cfg=cfg) for cfg in cfgs])


def make_policy(policy_cls, n_sample=None, n_episode=None, on_policy=False, unroll_len=1, **cfg):
    policy_cfg = EasyDict(type="scripted", traj_len_inf=False, on_policy=on_policy, collect={}, learn={}, **cfg)
    attributes = {
        "n_sample": n_sample,
        "n_episode": n_episode,
        "on_policy": on_policy,
        "unroll_len": unroll_len,
        "cfg": policy_cfg,
    }
    return policy_cls(attributes=attributes)


def make_collector(cls, env, policy, **cfg):
    return cls(EasyDict({**cls.default_config(), **cfg}), env=env, policy=policy.collect_mode)


def model_run(lengths: list[int], traj_len: float, calls: list[tuple[int, bool]], keep_surplus: bool):
    """What a sample collector returns, as (env, episode, t) of each transition; written for clarity, not speed."""
    episode, t = [0] * len(lengths), [0] * len(lengths)
    pieces: list[list[tuple[int, int, int]]] = [[] for _ in lengths]
    surplus: list = []
    steps = 0
    results = []
    for n_sample, drop_extra in calls:
        samples, surplus = surplus, []
        while len(samples) < n_sample:
            for i, length in enumerate(lengths):
                pieces[i].append((i, episode[i], t[i]))
                t[i] += 1
                steps += 1
                done = t[i] == length
                if done or len(pieces[i]) == traj_len:
                    samples = samples + pieces[i]
                    pieces[i] = []
                if done:
                    episode[i], t[i] = episode[i] + 1, 0
        if drop_extra:
            samples, surplus = samples[:n_sample], samples[n_sample:] if keep_surplus else []
        results.append((samples, steps))
    return results


def identify(samples, lengths: list[int]) -> list[tuple[int, int]]:
    """(episode, t) of each transition, read from its observation."""
    return [tuple(int(v) for v in row["obs"]) for row in samples]


@BOTH
@pytest.mark.parametrize("lengths", [[5, 7], [3, 3, 3], [1, 4]])
@pytest.mark.parametrize("default_n_sample", [2, 8, None])
@pytest.mark.parametrize("reference", [False, True])
def test_samples_equal_the_model(policy_cls, lengths, default_n_sample, reference) -> None:
    calls = [(10, True), (10, False), (7, True), (3, True)]
    traj_len = float("inf") if default_n_sample is None else -(-default_n_sample // len(lengths))
    policy = make_policy(policy_cls, default_n_sample, reference_numerics=reference)
    collector = make_collector(SampleSerialCollector, make_env(*lengths), policy)
    for (n_sample, drop_extra), (expected, steps) in zip(calls, model_run(lengths, traj_len, calls, not reference)):
        samples = collector.collect(n_sample, drop_extra=drop_extra, train_iter=3)
        assert identify(samples, lengths) == [(episode, t) for _, episode, t in expected]
        assert collector.envstep == steps
        for row, (env_id, _, t) in zip(samples, expected):
            assert row["done"] is (t + 1 == lengths[env_id])
            assert row["reward"].tolist() == [t + 1.0]
            assert row["next_obs"].tolist() == [row["obs"][0], t + 1.0]
            assert row["collect_iter"] == 3
    collector.close()


@BOTH
@pytest.mark.parametrize("kind", ["base_v2", "subprocess_v2"])
@pytest.mark.parametrize("late", [False, True])
def test_managers_of_the_second_form(policy_cls, kind, late) -> None:
    env, policy = make_env(5, 7, kind=kind), make_policy(policy_cls, n_sample=8)
    if late:
        collector = SampleSerialCollector(SampleSerialCollector.default_config())
        collector.reset(policy.collect_mode, env)
    else:
        collector = make_collector(SampleSerialCollector, env, policy)
    expected, steps = model_run([5, 7], 4, [(10, True)], True)[0]
    assert identify(collector.collect(10), [5, 7]) == [(episode, t) for _, episode, t in expected]
    assert collector.envstep == steps
    collector.close()
    assert env.closed


@BOTH
@pytest.mark.parametrize("settings", [{"auto_reset": False}, {"episode_num": 1}], ids=str)
@pytest.mark.parametrize("kind", ["base", "subprocess"])
def test_envs_that_the_manager_does_not_reset(policy_cls, kind, settings) -> None:
    cfgs = [EasyDict(episode_length=3)] * 2
    env = create_env_manager(EasyDict(type=kind, **settings), [partial(CountingEnv, cfg=cfg) for cfg in cfgs])
    collector = make_collector(SampleSerialCollector, env, make_policy(policy_cls))
    expected, _ = model_run([3, 3], float("inf"), [(12, True)], True)[0]
    assert identify(collector.collect(12), [3, 3]) == [(episode, t) for _, episode, t in expected]
    collector.close()


@BOTH
def test_the_reference_example(policy_cls) -> None:
    policy = make_policy(policy_cls, n_sample=8, reference_numerics=True)
    collector = make_collector(SampleSerialCollector, make_env(5, 7), policy)
    assert len(collector.collect(10)) == 10
    assert collector.envstep == 14
    assert len(collector.collect(10, drop_extra=False)) == 16
    assert collector.envstep == 28


@pytest.mark.parametrize("dict_obs", [False, True])
@pytest.mark.parametrize("n_sample", [3, 12])
def test_both_paths_give_the_same_rows(dict_obs, n_sample) -> None:
    results = []
    for policy_cls in (ScriptedPolicy, BatchedScriptedPolicy):
        policy = make_policy(policy_cls, n_sample=n_sample)
        env = make_env(5, 7, 2, dict_obs=dict_obs)
        collector = make_collector(SampleSerialCollector, env, policy)
        results.append([row for _ in range(4) for row in collector.collect()])
        collector.close()
    classic, batched = results
    assert len(classic) == len(batched) == 4 * n_sample
    for a, b in zip(classic, batched):
        assert_same(a, b)


def assert_same(a, b) -> None:
    # A row of a batch is a dict with attributes.
    assert isinstance(b, type(a))
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    else:
        assert a == b


def test_batched_samples_are_columns() -> None:
    collector = make_collector(SampleSerialCollector, make_env(5, 7), make_policy(BatchedScriptedPolicy, n_sample=4))
    samples = collector.collect()
    assert isinstance(samples, TransitionBatch)
    columns = samples.columns
    assert columns["obs"].shape == (4, 2)
    assert columns["obs"].dtype == torch.float32
    assert columns["action"].shape == (4, 1)
    assert columns["done"].dtype == np.bool_


@BOTH
def test_policy_is_reset_and_told(policy_cls) -> None:
    policy = make_policy(policy_cls, n_sample=2)
    collector = make_collector(SampleSerialCollector, make_env(2, 3), policy)
    collector.collect(6, policy_kwargs={"eps": 0.5})
    assert policy.forwards == [("collect", [0, 1], {"eps": 0.5})] * 3
    assert policy.resets == [("collect", None), ("collect", [0]), ("collect", [1])]


@BOTH
def test_on_policy_drops_unfinished_pieces(policy_cls) -> None:
    policy = make_policy(policy_cls, n_sample=4, on_policy=True, reference_numerics=True)
    collector = make_collector(SampleSerialCollector, make_env(3, 3), policy)
    # Pieces of two steps; the episode ends cut the second piece after one step.
    assert identify(collector.collect(6), [3, 3]) == [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2), (0, 2)]
    collector.collect(1)
    assert collector.envstep == 10
    assert identify(collector.collect(2), [3, 3]) == [(1, 2), (1, 2)]


def test_on_policy_cuts_segments_when_there_are_enough_steps() -> None:
    policy = make_policy(BatchedScriptedPolicy, n_sample=8, on_policy=True)
    collector = make_collector(SampleSerialCollector, make_env(3, 5), policy)
    samples = collector.collect()
    # Four steps each, and none in vain: env 0 ended an episode after three, the rest is cut.
    assert collector.envstep == len(samples) == 8
    assert samples.lengths.tolist() == [3, 4, 1]
    assert identify(samples, [3, 5]) == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    again = collector.collect()
    assert collector.envstep == 16
    assert again.lengths.tolist() == [1, 2, 2, 3]
    assert identify(again, [3, 5]) == [(0, 4), (1, 1), (1, 2), (2, 0), (2, 1), (1, 0), (1, 1), (1, 2)]


@BOTH
def test_abnormal_steps_are_dropped_and_the_env_reset(policy_cls) -> None:
    env = create_env_manager(
        EasyDict(type="base"),
        [
            partial(CountingEnv, cfg=EasyDict(episode_length=4, abnormal_steps=[2])),
            partial(CountingEnv, cfg=EasyDict(episode_length=4)),
        ],
    )
    policy = make_policy(policy_cls, n_sample=8)
    collector = make_collector(SampleSerialCollector, env, policy)
    samples = collector.collect()
    # Env 0 steps once, is abnormal at its second step and starts over; env 1 goes on.
    assert collector.envstep == sum(1 for _ in samples) + 3
    assert identify(samples, [4, 4])[:4] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    # After its abnormal step env 0 needs four, of which env 1 ends its own at the second.
    assert policy.resets == [("collect", None), ("collect", [0]), ("collect", [1]), ("collect", [0])]
    assert [episode["step"] for episode in collector.state_dict()["episode_info"]] == [4, 4]


@BOTH
def test_an_episode_after_an_abnormal_step_counts_from_zero(policy_cls) -> None:
    env = make_env(4, 4, abnormal_steps=[2])
    collector = make_collector(EpisodeSerialCollector, env, make_policy(policy_cls, n_episode=2))
    assert [len(episode) for episode in collector.collect()] == [4, 4]
    assert [episode["step"] for episode in collector.state_dict()["episode_info"]] == [4, 4]
    # The steps before the abnormal ones were counted, these were not.
    assert collector.envstep == 10


class Noting(BatchedScriptedPolicy):
    """Notes of how many segments it makes samples at a time."""

    unroll_len = 1

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.segments = []

    @batched
    def _get_train_sample(self, transitions):
        self.segments.append(len(transitions.segment_lengths()))
        return get_train_sample(transitions, self.unroll_len)


class NotingSequences(Noting):
    unroll_len = 2


class Sequences(ScriptedPolicy):
    def _get_train_sample(self, transitions):
        return get_train_sample(transitions, 2)


def test_samples_of_several_steps_are_made_together() -> None:
    # Segments of 3 (env 0) and of 4 and 3 steps (env 1) end after 3, 4, 6, 7, 9 vector steps.
    policy = make_policy(Noting, n_sample=8)
    collector = make_collector(SampleSerialCollector, make_env(3, 7), policy)
    collector.collect(9)
    assert (policy.segments, collector.envstep) == ([3], 12)
    # Sequences of two steps: 10 steps might give 9 of them, but they give 6; then there is one segment more at a time.
    policy = make_policy(NotingSequences, n_sample=8)
    collector = make_collector(SampleSerialCollector, make_env(3, 7), policy)
    assert len(collector.collect(9)) == 9
    assert (policy.segments, collector.envstep) == ([3, 1, 1], 18)


@pytest.mark.parametrize("policy_cls", [Sequences, NotingSequences])
def test_train_samples_are_counted_for_their_episode(policy_cls) -> None:
    collector = make_collector(SampleSerialCollector, make_env(3, 7), make_policy(policy_cls, n_sample=8))
    collector.collect(20)
    counted = [(episode["step"], episode["train_sample"]) for episode in collector.state_dict()["episode_info"]]
    assert counted == [(3, 2), (3, 2), (7, 4), (3, 2), (3, 2), (7, 4), (3, 2), (3, 2)]


class Doubled(ScriptedPolicy):
    """Gives each transition twice."""

    def _get_train_sample(self, transitions):
        return [dict(row) for row in transitions for _ in range(2)]


class BatchedDoubled(BatchedScriptedPolicy):
    @batched
    def _get_train_sample(self, transitions):
        return transitions[np.repeat(np.arange(len(transitions)), 2)]


def test_a_step_may_give_several_samples() -> None:
    runs = []
    for policy_cls in (Doubled, BatchedDoubled):
        collector = make_collector(SampleSerialCollector, make_env(3, 7, 2), make_policy(policy_cls, n_sample=9))
        # The first pieces tell how many.
        collector.collect(1)
        runs.append([(identify(collector.collect(20), []), collector.envstep) for _ in range(5)])
    assert runs[0] == runs[1]


def test_level_seeds() -> None:
    for policy_cls in (ScriptedPolicy, BatchedScriptedPolicy):
        collector = make_collector(SampleSerialCollector, make_env(5, 5), make_policy(policy_cls, n_sample=2))
        assert [row["seed"] for row in collector.collect(4, level_seeds=[11, 22])] == [11, 22, 11, 22]


def test_missing_parts_are_named() -> None:
    collector = SampleSerialCollector(SampleSerialCollector.default_config())
    with pytest.raises(RuntimeError, match="needs an env manager"):
        collector.collect(3)
    with pytest.raises(AssertionError, match="set an env manager before the policy"):
        collector.reset_policy(make_policy(ScriptedPolicy).collect_mode)
    collector.reset_env(make_env(3))
    with pytest.raises(RuntimeError, match="needs a policy"):
        collector.collect(3)
    collector.reset_policy(make_policy(ScriptedPolicy).collect_mode)
    collector.reset()
    with pytest.raises(RuntimeError, match=r"policy\.collect\.n_sample"):
        collector.collect()
    assert len(collector.collect(3)) == 3
    collector.close()
    collector.close()


def test_pieces_survive_a_change_of_policy() -> None:
    for policy_cls in (ScriptedPolicy, BatchedScriptedPolicy):
        first, second = make_policy(policy_cls, n_sample=6), make_policy(policy_cls, n_sample=6)
        collector = make_collector(SampleSerialCollector, make_env(4, 9), first)
        collector.collect(1)
        assert collector.envstep == 6
        collector.collect(6)
        assert collector.envstep == 8
        collector.reset_policy(second.collect_mode)
        # Env 1 had stored step 3 of its episode under the first policy.
        assert identify(collector.collect(5, drop_extra=False), [4, 9])[:3] == [(0, 3), (0, 4), (0, 5)]


def test_logs_and_tags(tmp_path) -> None:
    class Writer:
        def __init__(self):
            self.scalars = {}

        def add_scalar(self, tag, value, step):
            self.scalars[tag] = (value, step)

        def flush(self):
            pass

    writer = Writer()
    policy = make_policy(BatchedScriptedPolicy, n_sample=4)
    collector = SampleSerialCollector(
        SampleSerialCollector.default_config(),
        make_env(3, 3),
        policy.collect_mode,
        tb_logger=writer,
        exp_name="exp",
        instance_name="col",
    )
    collector.collect(6, train_iter=99)
    assert writer.scalars == {}
    collector.collect(6, train_iter=100)
    expected = {
        "episode_count": 4,
        "envstep_count": 12,
        "train_sample_count": 12,
        "avg_envstep_per_episode": 3.0,
        "avg_sample_per_episode": 3.0,
        "reward_mean": 6.0,
        "reward_std": 0.0,
        "reward_max": 6.0,
        "reward_min": 6.0,
        "total_train_sample_count": 12,
        "total_episode_count": 4,
    }
    for key, value in expected.items():
        assert writer.scalars[f"col_iter/{key}"] == (value, 100), key
        assert writer.scalars[f"col_step/{key}"] == (value, 12), key
    assert writer.scalars["col_iter/total_envstep_count"] == (12, 100)
    assert "col_step/total_envstep_count" not in writer.scalars
    for key in ("avg_envstep_per_sec", "avg_train_sample_per_sec", "avg_episode_per_sec"):
        assert writer.scalars[f"col_iter/{key}"][0] > 0
    # The next log comes 100 iterations after this one, and is about the episodes since then.
    collector.collect(6, train_iter=199)
    assert writer.scalars["col_iter/episode_count"] == (4, 100)
    collector.collect(6, train_iter=200)
    assert writer.scalars["col_iter/episode_count"] == (4, 200)
    assert writer.scalars["col_iter/total_episode_count"] == (8, 200)
    text = (tmp_path / "exp" / "log" / "col" / "col_logger.txt").read_text()
    assert "collect end:" in text
    assert "reward_mean: 6.0" in text


@BOTH
def test_exactly_n_episodes(policy_cls) -> None:
    policy = make_policy(policy_cls, n_episode=5)
    collector = make_collector(EpisodeSerialCollector, make_env(5, 7), policy)
    episodes = collector.collect()
    assert [len(episode) for episode in episodes] == [5, 7, 5, 7, 5]
    assert collector.envstep == 29
    for episode in episodes:
        assert [row["done"] for row in episode] == [False] * (len(episode) - 1) + [True]
        assert [int(row["obs"][1]) for row in episode] == list(range(len(episode)))
    assert collector.envstep == sum(len(episode) for episode in episodes)
    assert [len(episode) for episode in collector.collect(2)] == [5, 7]


@BOTH
def test_episodes_as_samples_and_reward_shaping(policy_cls) -> None:
    policy = make_policy(policy_cls, n_episode=2)
    collector = make_collector(EpisodeSerialCollector, make_env(2, 3), policy, get_train_sample=True)
    assert identify(collector.collect(), [2, 3]) == [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2)]
    with pytest.raises(AssertionError, match=r"n_episode is 1, but env\.collector_env_num is 2"):
        collector.collect(1)


@BOTH
@pytest.mark.parametrize("kind", ["subprocess", "async_subprocess"])
def test_other_processes_give_the_same_episodes(policy_cls, kind) -> None:
    policy = make_policy(policy_cls, n_episode=4)
    collector = make_collector(EpisodeSerialCollector, make_env(3, 4, kind=kind), policy)
    episodes = collector.collect()
    lengths = [len(episode) for episode in episodes]
    if kind == "subprocess":
        assert lengths == [3, 4, 3, 4]
    else:  # Either process may be the faster one: which envs end the four episodes is open.
        assert len(lengths) == 4
        assert set(lengths) <= {3, 4}
    for episode in episodes:
        assert [int(row["obs"][1]) for row in episode] == list(range(len(episode)))
        assert [int(row["next_obs"][1]) for row in episode] == list(range(1, len(episode) + 1))
    collector.close()


@BOTH
def test_asynchronous_envs_get_their_own_observations(policy_cls) -> None:
    policy = make_policy(policy_cls, n_sample=6)
    collector = make_collector(SampleSerialCollector, make_env(5, 7, 4, kind="async_subprocess"), policy)
    for _ in range(5):
        for row in collector.collect():
            assert row["next_obs"].tolist() == [row["obs"][0], row["obs"][1] + 1]
            assert row["reward"].item() == row["obs"][1] + 1
    collector.close()


def test_factories() -> None:
    cfg = EasyDict(type="sample", **SampleSerialCollector.default_config())
    assert get_serial_collector_cls(cfg) is SampleSerialCollector
    policy = make_policy(ScriptedPolicy, n_sample=1)
    collector = create_serial_collector(cfg, env=make_env(2), policy=policy.collect_mode, exp_name="e")
    assert isinstance(collector, SampleSerialCollector)
    with pytest.raises(KeyError, match="sample"):
        get_serial_collector_cls(EasyDict(type="sampel"))
