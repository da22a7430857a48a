"""The episode record: what is counted of the running episodes, of the finished ones, and of the run.

=================  ==================================================================================================
term               meaning
=================  ==================================================================================================
env step           one step of one environment whose timestep was not abnormal
episode            ends with ``done``; one that ends with an abnormal step is dropped, its steps stay counted
train sample       what ``get_train_sample`` makes of a segment; it belongs to the episode of the segment
duration           seconds spent on the steps of finished episodes, each vector step shared out among its environments
total              over all ranks of a distributed run, as of the last :meth:`EpisodeRecord.sync`
=================  ==================================================================================================
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ding.data.roles import StateDict
from ding.utils import allreduce_data, get_world_size

Return: TypeAlias = float | Sequence[float] | np.ndarray | torch.Tensor
"""The return of an episode as an env reports it; of a game it may be one for all players, which is indexed by them."""

Episode: TypeAlias = dict[str, Any]
"""``time`` (seconds), ``step`` and ``train_sample``, and the returns: ``reward``, or ``reward<player>`` of a game."""


class EpisodeRecord:
    """Counts and returns of episodes.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.

    Attributes:
        envstep, episode_count, train_sample_count: totals, see above.
        duration_s: total duration of the finished episodes.
        finished: the finished episodes that nobody has reported yet, in the order in which they ended.
        numbers: int64 ``[env_num]``, episodes that each environment has ended or dropped.
        steps: int64 ``[env_num]``, steps of the running episodes.
        running: the running episodes; they get their returns, steps and seconds when they end.
    """

    def __init__(self, env_num: int = 0) -> None:
        self._is_distributed = get_world_size() > 1
        self.finished: list[Episode] = []
        self.zero_totals()
        self.begin(env_num)

    def zero_totals(self) -> None:
        """Count from zero, and forget the finished episodes."""
        self.envstep = self.episode_count = self.train_sample_count = 0
        self.duration_s = 0.0
        self.finished.clear()
        self._synced = self._totals()

    def begin(self, env_num: int) -> None:
        """Forget the running episodes: there are new ones in each of ``env_num`` environments."""
        self.numbers = np.zeros(env_num, dtype=np.int64)
        self.steps = np.zeros(env_num, dtype=np.int64)
        self._seconds = np.zeros(env_num)
        self.running: list[Episode] = [{"train_sample": 0} for _ in range(env_num)]

    def step(self, env_ids: np.ndarray, seconds: float) -> None:
        """Count a vector step of these environments (int64 ``[N]``), which took so long."""
        count = len(env_ids)
        stepped = slice(None) if count == len(self.steps) else env_ids
        self.steps[stepped] += 1
        self._seconds[stepped] += seconds / count
        self.envstep += count

    def count_samples(self, episodes: Sequence[Episode], num_samples: np.ndarray) -> None:
        """Count the samples (int64 ``[S]``) of segments of these episodes, which may have ended."""
        counts = num_samples.tolist()
        for episode, count in zip(episodes, counts, strict=True):
            episode["train_sample"] += count
        self.train_sample_count += sum(counts)

    def end(self, env_id: int, returns: Mapping[str, float]) -> Episode:
        """The running episode of an environment has ended with these returns; the next one begins."""
        episode = self.running[env_id]
        episode.update(returns, time=float(self._seconds[env_id]), step=int(self.steps[env_id]))
        self.finished.append(episode)
        self.episode_count += 1
        self.duration_s += episode["time"]
        self.drop([env_id])
        return episode

    def drop(self, env_ids: Sequence[int]) -> None:
        """Forget the running episodes of these environments; the next ones begin."""
        for env_id in env_ids:
            self.numbers[env_id] += 1
            self.steps[env_id] = 0
            self._seconds[env_id] = 0.0
            self.running[env_id] = {"train_sample": 0}

    # ------------------------------------------------------------------ totals

    def set_envstep(self, value: int) -> None:
        """Go on counting env steps from ``value``."""
        self.envstep = self._synced[0] = value

    def sync(self) -> None:
        """Make the totals those of all ranks: what each has counted since the last call is summed."""
        if not self._is_distributed:
            return
        self._set_totals(
            [
                before + type(before)(allreduce_data(now - before, "sum"))
                for now, before in zip(self._totals(), self._synced)
            ]
        )
        self._synced = self._totals()

    def _totals(self) -> list[Any]:
        return [self.envstep, self.episode_count, self.train_sample_count, self.duration_s]

    def _set_totals(self, totals: Sequence[Any]) -> None:
        self.envstep, self.episode_count, self.train_sample_count, self.duration_s = totals

    def state_dict(self) -> StateDict:
        """The totals, and the finished episodes that wait to be reported. Running episodes are not part of it."""
        return {
            "total_envstep_count": self.envstep,
            "total_episode_count": self.episode_count,
            "total_train_sample_count": self.train_sample_count,
            "total_duration": self.duration_s,
            "episode_info": [dict(episode) for episode in self.finished],
        }

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore what :meth:`state_dict` returned."""
        names = ("total_envstep_count", "total_episode_count", "total_train_sample_count", "total_duration")
        self._set_totals([state_dict[name] for name in names])
        self._synced = self._totals()
        self.finished = [dict(episode) for episode in state_dict["episode_info"]]

    def summary(self, with_samples: bool) -> dict[str, float]:
        """Sums, averages and rates of the finished episodes, and the totals.

        Args:
            with_samples: also of train samples, in place of times.
        """
        episodes = self.finished
        count = len(episodes)
        steps = sum(episode["step"] for episode in episodes)
        samples = sum(episode["train_sample"] for episode in episodes)
        duration_s = sum(episode["time"] for episode in episodes)
        info: dict[str, float] = {
            "episode_count": count,
            "envstep_count": steps,
            "train_sample_count": samples,
            "avg_envstep_per_episode": ratio(steps, count),
            "avg_sample_per_episode": ratio(samples, count),
            "avg_envstep_per_sec": ratio(steps, duration_s),
            "avg_train_sample_per_sec": ratio(samples, duration_s),
            "avg_episode_per_sec": ratio(count, duration_s),
            "collect_time": duration_s,
        }
        for key in [key for key in (episodes[0] if episodes else ()) if key.startswith("reward")]:
            info |= {f"{key}_{name}": value for name, value in spread([one[key] for one in episodes]).items()}
        info |= {
            "total_envstep_count": self.envstep,
            "total_train_sample_count": self.train_sample_count,
            "total_episode_count": self.episode_count,
            "total_duration": self.duration_s,
        }
        hidden = ("collect_time", "total_duration") if with_samples else ("sample",)
        return {key: value for key, value in info.items() if not any(part in key for part in hidden)}


class ReturnStatistics:
    """Mean and deviation of all returns, and the last ``kept`` of them: an endless task must not keep each."""

    def __init__(self, kept: int = 10_000) -> None:
        self.count = 0
        self.mean = 0.0
        self.last: deque[float] = deque(maxlen=kept)
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Count a return, by Welford's rule."""
        self.count += 1
        deviation = value - self.mean
        self.mean += deviation / self.count
        self._squares += deviation * (value - self.mean)
        self.last.append(value)

    @property
    def std(self) -> float:
        """Standard deviation; 0 without returns."""
        return math.sqrt(ratio(self._squares, self.count))


def spread(values: Sequence[float]) -> dict[str, float]:
    """``mean``, ``std``, ``max`` and ``min``."""
    return {name: float(getattr(np, name)(values)) for name in ("mean", "std", "max", "min")}


def ratio(value: float, count: float) -> float:
    """``value / count``; 0 where nothing was counted."""
    return value / count if count > 0 else 0.0


def episode_return(info: object, env_id: int) -> Return:
    """``info['eval_episode_return']`` of a finished episode.

    Raises:
        KeyError: the env did not report it.
    """
    if not isinstance(info, Mapping) or "eval_episode_return" not in info:
        raise KeyError(
            f"env {env_id} ended an episode without info['eval_episode_return']: "
            "add the wrapper EvalEpisodeReturnWrapper ('eval_episode_return'), or set it in the step of the env"
        )
    return info["eval_episode_return"]


def scalar(value: Return) -> float:
    """A Python number out of a number, an array or a tensor with one element."""
    return float(value.item() if isinstance(value, (np.ndarray, torch.Tensor)) else value)  # type: ignore[arg-type]
