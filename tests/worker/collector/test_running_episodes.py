"""Steps and seconds of episodes that run side by side."""

import numpy as np

from ding.worker.collector._running_episodes import RunningEpisodes

BOTH, SECOND = np.array([0, 1]), np.array([1])


def test_each_episode_has_its_own_steps_and_seconds() -> None:
    episodes = RunningEpisodes(2)
    episodes.step(BOTH, 1.0)
    episodes.step(SECOND, 2.0)
    assert episodes.end(0, 5.0) == {"reward": 5.0, "time": 1.0, "step": 1, "train_sample": 0}
    episodes.step(BOTH, 4.0)
    assert episodes.end(0, 6.0) == {"reward": 6.0, "time": 4.0, "step": 1, "train_sample": 0}
    assert episodes.end(1, 7.0) == {"reward": 7.0, "time": 7.0, "step": 3, "train_sample": 0}


def test_what_was_counted_before_a_restart_is_forgotten() -> None:
    episodes = RunningEpisodes(2)
    episodes.step(BOTH, 1.0)
    episodes.record(0)["train_sample"] += 1
    episodes.restart(0)
    episodes.step(BOTH, 2.0)
    assert episodes.end(0, 0.0) == {"reward": 0.0, "time": 2.0, "step": 1, "train_sample": 0}
    assert episodes.end(1, 0.0)["step"] == 2
