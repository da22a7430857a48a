"""What a parallel collector remembers of its environments: where a piece lies in its episode, how episodes ended.

A *span* says which steps became training samples: ``[env_id, episode, first_step, num_steps, num_samples]``, episodes
and steps counted from 0 since the collector began. The spans of an episode follow each other without gap or overlap,
so that whoever receives chunks can check that nothing is missing and nothing came twice.
"""

import math
import time
from collections import deque
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np

Span: TypeAlias = list[int]

_RETURNS_KEPT = 10_000


class PieceLedger:
    """Episode and step of each environment, and the spans of the pieces that are cut.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
    """

    def __init__(self, env_num: int) -> None:
        self._episode = np.zeros(env_num, dtype=np.int64)
        self._step = np.zeros(env_num, dtype=np.int64)
        self._cut_at = np.zeros(env_num, dtype=np.int64)

    def advance(self, env_ids: np.ndarray) -> None:
        """One step of these environments."""
        self._step[env_ids] += 1

    def cut(self, env_ids: np.ndarray, num_samples: np.ndarray) -> list[Span]:
        """The spans of the pieces of these environments, which end here."""
        first = self._cut_at[env_ids]
        rows = np.stack([env_ids, self._episode[env_ids], first, self._step[env_ids] - first, num_samples], axis=1)
        self._cut_at[env_ids] = self._step[env_ids]
        return rows.tolist()

    def end_episodes(self, env_ids: np.ndarray) -> None:
        """The episodes of these environments are over."""
        self._episode[env_ids] += 1
        self._step[env_ids] = 0
        self._cut_at[env_ids] = 0


def joined_spans(spans: list[Span]) -> list[Span]:
    """The same spans, those that follow each other made one."""
    last: dict[tuple[int, int], Span] = {}
    joined: list[Span] = []
    for env_id, episode, first, steps, samples in spans:
        before = last.get((env_id, episode))
        if before is not None and before[2] + before[3] == first:
            before[3] += steps
            before[4] += samples
        else:
            span = [env_id, episode, first, steps, samples]
            last[env_id, episode] = span
            joined.append(span)
    return joined


class EpisodeTally:
    """Counts of a collector since it began, and the returns of its episodes."""

    def __init__(self, env_num: int, episode_num: float) -> None:
        self._env_num = env_num
        self._predefined = env_num * episode_num
        self._begin_s = time.monotonic()
        self.step_count = 0
        self.sample_count = 0
        self.episode_count = 0
        self._mean = 0.0
        self._squares = 0.0
        self._returns: deque[float] = deque(maxlen=_RETURNS_KEPT)

    def add_episode(self, value: float) -> None:
        """Count a finished episode with its return."""
        self.episode_count += 1
        # Welford's running mean and variance: an endless task must not keep every return.
        deviation = value - self._mean
        self._mean += deviation / self.episode_count
        self._squares += deviation * (value - self._mean)
        self._returns.append(value)

    def progress(self) -> dict[str, int]:
        """The counts that go with everything a collector sends."""
        return {
            "cur_episode": self.episode_count,
            "cur_sample": self.sample_count,
            "cur_step": self.step_count,
        }

    def finish_info(self, collector_done: bool) -> dict[str, Any]:
        """The summary at the end of a task. Ratios by 0 are 0; ``reward_raw`` has the last 10,000 returns."""
        duration_s = time.monotonic() - self._begin_s
        episodes = self.episode_count
        return {
            "env_num": self._env_num,
            "duration": duration_s,
            "collector_done": collector_done,
            "predefined_episode_count": self._predefined,
            "real_episode_count": episodes,
            "step_count": self.step_count,
            "sample_count": self.sample_count,
            "avg_time_per_episode": _ratio(duration_s, episodes),
            "avg_time_per_step": _ratio(duration_s, self.step_count),
            "avg_time_per_train_sample": _ratio(duration_s, self.sample_count),
            "avg_step_per_episode": _ratio(self.step_count, episodes),
            "avg_sample_per_episode": _ratio(self.sample_count, episodes),
            "reward_mean": self._mean,
            "reward_std": math.sqrt(_ratio(self._squares, episodes)),
            "reward_raw": list(self._returns),
            "finish_time": datetime.now().timestamp(),
        }


def _ratio(value: float, count: float) -> float:
    return value / count if count else 0.0
