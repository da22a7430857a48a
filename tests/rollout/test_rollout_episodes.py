"""The episode record: running episodes side by side, totals, what is reported of them, and totals over ranks."""

import numpy as np
import pytest

from ding.rollout import EpisodeRecord, ReturnStatistics, episode_return
from ding.rollout import record as record_module

BOTH, SECOND = np.array([0, 1]), np.array([1])


def test_each_episode_has_its_own_steps_and_seconds() -> None:
    episodes = EpisodeRecord(2)
    episodes.step(BOTH, 2.0)
    episodes.step(SECOND, 2.0)
    assert episodes.end(0, {"reward": 5.0}) == {"reward": 5.0, "time": 1.0, "step": 1, "train_sample": 0}
    episodes.step(BOTH, 8.0)
    assert episodes.end(0, {"reward": 6.0}) == {"reward": 6.0, "time": 4.0, "step": 1, "train_sample": 0}
    assert episodes.end(1, {"reward": 7.0}) == {"reward": 7.0, "time": 7.0, "step": 3, "train_sample": 0}
    assert (episodes.envstep, episodes.episode_count, episodes.duration_s) == (5, 3, 12.0)
    assert episodes.numbers.tolist() == [2, 1]
    assert [episode["reward"] for episode in episodes.finished] == [5.0, 6.0, 7.0]


def test_dropped_episodes_leave_their_steps_in_the_totals_only() -> None:
    episodes = EpisodeRecord(2)
    episodes.step(BOTH, 2.0)
    episodes.drop([0])
    episodes.step(BOTH, 4.0)
    assert episodes.end(0, {}) == {"time": 2.0, "step": 1, "train_sample": 0}
    assert episodes.end(1, {})["step"] == 2
    assert (episodes.envstep, episodes.episode_count) == (4, 2)


def test_samples_belong_to_the_episode_of_their_segment_also_after_its_end() -> None:
    episodes = EpisodeRecord(2)
    first = episodes.running[0]
    episodes.step(BOTH, 1.0)
    episodes.end(0, {"reward": 1.0})
    episodes.count_samples([first, episodes.running[0]], np.array([3, 4]))
    assert episodes.finished[0]["train_sample"] == 3
    assert (episodes.running[0]["train_sample"], episodes.train_sample_count) == (4, 7)


def ended(*returns, step=2):
    episodes = EpisodeRecord(1)
    for value in returns:
        for _ in range(step):
            episodes.step(np.array([0]), 0.5)
        episodes.end(0, value)
    return episodes


def test_the_summary_is_about_samples_or_about_times() -> None:
    episodes = ended({"reward": 1.0}, {"reward": 3.0})
    common = {
        "episode_count": 2, "envstep_count": 4, "avg_envstep_per_episode": 2.0, "avg_envstep_per_sec": 2.0,
        "avg_episode_per_sec": 1.0, "reward_mean": 2.0, "reward_std": 1.0, "reward_max": 3.0, "reward_min": 1.0,
        "total_envstep_count": 4, "total_episode_count": 2,
    }  # fmt: skip
    assert episodes.summary(with_samples=False) == {**common, "collect_time": 2.0, "total_duration": 2.0}
    samples = {
        "train_sample_count": 0, "avg_sample_per_episode": 0.0, "avg_train_sample_per_sec": 0.0,
        "total_train_sample_count": 0,
    }  # fmt: skip
    assert episodes.summary(with_samples=True) == {**common, **samples}


def test_the_summary_of_a_game_has_the_returns_of_each_player() -> None:
    info = ended({"reward0": 1.0, "reward1": -1.0}).summary(with_samples=False)
    assert (info["reward0_max"], info["reward1_min"]) == (1.0, -1.0)
    assert "reward_mean" not in info


def test_a_state_is_taken_up() -> None:
    episodes = ended({"reward": 1.0})
    state = episodes.state_dict()
    episodes.finished[0]["reward"] = 9.0
    other = EpisodeRecord(3)
    other.load_state_dict(state)
    assert (other.envstep, other.episode_count, other.duration_s) == (2, 1, 1.0)
    assert other.finished[0]["reward"] == 1.0
    other.zero_totals()
    assert (other.envstep, other.finished) == (0, [])


def test_totals_are_those_of_all_ranks(monkeypatch) -> None:
    monkeypatch.setattr(record_module, "get_world_size", lambda: 2)
    # The other rank has counted twice as much.
    monkeypatch.setattr(record_module, "allreduce_data", lambda value, op: 3 * value)
    episodes = EpisodeRecord(1)
    for expected in (6, 12):
        episodes.step(np.array([0]), 1.0)
        episodes.step(np.array([0]), 1.0)
        episodes.end(0, {"reward": 1.0})
        episodes.sync()
        assert (episodes.envstep, episodes.episode_count) == (expected, expected // 2)
        assert episodes.duration_s == float(expected)
        assert type(episodes.envstep) is int
    episodes.set_envstep(100)
    episodes.sync()
    assert episodes.envstep == 100


def test_statistics_of_returns_keep_the_last_ones() -> None:
    statistics = ReturnStatistics(kept=2)
    assert (statistics.mean, statistics.std) == (0.0, 0.0)
    for value in (1.0, 2.0, 6.0):
        statistics.add(value)
    assert statistics.mean == pytest.approx(3.0)
    assert statistics.std == pytest.approx(np.std([1.0, 2.0, 6.0]))
    assert list(statistics.last) == [2.0, 6.0]


def test_an_episode_without_a_return_is_an_error() -> None:
    assert episode_return({"eval_episode_return": 3}, 0) == 3
    with pytest.raises(KeyError, match="env 4 ended an episode without"):
        episode_return({}, 4)
