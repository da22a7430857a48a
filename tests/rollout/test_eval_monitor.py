import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ding.worker import VectorEvalMonitor


@given(env_num=st.integers(1, 9), extra=st.integers(0, 20))
def test_quotas_add_up_and_differ_by_at_most_one(env_num, extra):
    n_episode = env_num + extra
    monitor = VectorEvalMonitor(env_num, n_episode)
    played = [0] * env_num
    for env_id in range(env_num):
        while not monitor.is_full(env_id):
            assert not monitor.is_finished()
            monitor.update_reward(env_id, 1.0)
            played[env_id] += 1
    assert monitor.is_finished()
    assert sum(played) == n_episode == monitor.get_current_episode()
    assert played == sorted(played, reverse=True)
    assert max(played) - min(played) <= 1


def test_fewer_episodes_than_envs_is_refused():
    with pytest.raises(AssertionError, match=r"n_episode \(2\).*env_num \(3\)"):
        VectorEvalMonitor(3, 2)


def test_episodes_beyond_the_quota_are_ignored():
    monitor = VectorEvalMonitor(2, 3)
    for value in (1.0, 2.0, 99.0):
        monitor.update_info(0, {"score": value})
        monitor.update_reward(0, value)
    assert not monitor.is_finished()
    monitor.update_reward(1, 3.0)
    monitor.update_info(1, {"score": 3.0})
    assert monitor.get_episode_return() == [1.0, 2.0, 3.0]
    assert monitor.get_episode_info() == {"score": [1.0, 2.0, 3.0], "score_mean": 2.0}
    assert monitor.get_latest_reward(0) == 2.0


@pytest.mark.parametrize("value", [torch.tensor(2.5), torch.tensor([2.5]), np.array([2.5]), np.float64(2.5), 2.5])
def test_returns_become_python_numbers(value):
    monitor = VectorEvalMonitor(1, 1)
    monitor.update_reward(0, value)
    assert monitor.get_episode_return() == [2.5]
    assert type(monitor.get_episode_return()[0]) is float


def test_episode_info_converts_arrays_and_averages_numbers_only():
    monitor = VectorEvalMonitor(1, 2)
    assert monitor.get_episode_info() is None
    monitor.update_info(0, {"a": torch.tensor([1.0]), "b": np.array([1, 2]), "c": "x"})
    monitor.update_info(0, {"a": np.float32(2.0), "b": torch.tensor([3, 4]), "c": "y"})
    assert monitor.get_episode_info() == {"a": [1.0, 2.0], "a_mean": 1.5, "b": [[1, 2], [3, 4]], "c": ["x", "y"]}


@pytest.mark.parametrize(
    ("returns", "shown"),
    [
        ([5.0], [5]),
        ([5.0, 1.0], [1, 5]),
        ([5.0, 1.0, 3.0], [1, 3, 5]),
        ([5.0, 1.0, 3.0, 2.0], [1, 2, 3, 5]),
        ([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [1, 3, 4, 6]),
    ],
)
def test_video_shows_worst_medians_and_best(returns, shown):
    monitor = VectorEvalMonitor(1, len(returns))
    for value in returns:
        for _ in range(int(value)):
            monitor.update_video({0: np.full((2, 3, 1), value, dtype=np.uint8)})
        monitor.update_reward(0, value)
    video = monitor.get_video()
    assert video.shape == (len(shown), max(shown), 1, 2, 3)
    assert video[:, -1, 0, 0, 0].tolist() == shown  # shorter ones repeat their last frame


def test_dropped_frames_are_not_shown():
    monitor = VectorEvalMonitor(1, 1)
    monitor.update_video({0: np.zeros((1, 1, 1), dtype=np.uint8)})
    monitor.drop_video(0)
    monitor.update_reward(0, 1.0)
    with pytest.raises(ValueError, match="no frames"):
        monitor.get_video()
