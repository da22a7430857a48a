"""What a collector counts of the episode that each environment is in."""

from typing import Any

import numpy as np


class RunningEpisodes:
    """Steps, seconds and train samples of the running episode of each environment.

    A step moves two clocks that all environments share; what an episode has is how far they went since its start.
    So nothing has to be done per environment where all of them step together.

    Args:
        env_num: number of environments; their ids are ``0 .. env_num - 1``.
    """

    def __init__(self, env_num: int) -> None:
        self._step_clock = 0
        self._clock_s = 0.0
        self._first_steps = [0] * env_num
        self._starts_s = [0.0] * env_num
        self._records = [_new_record() for _ in range(env_num)]

    def step(self, env_ids: np.ndarray, seconds: float) -> None:
        """These environments made a step, which took each of them so long."""
        self._step_clock += 1
        self._clock_s += seconds
        if len(env_ids) < len(self._records):
            for env_id in set(range(len(self._records))).difference(env_ids.tolist()):
                self._first_steps[env_id] += 1
                self._starts_s[env_id] += seconds

    def record(self, env_id: int) -> dict[str, Any]:
        """The record that :meth:`end` will give. ``train_sample`` is for the caller to count, also after the end."""
        return self._records[env_id]

    def end(self, env_id: int, reward: float) -> dict[str, Any]:
        """``reward``, ``time`` (seconds), ``step`` and ``train_sample`` of the episode; the next one begins."""
        record = self._records[env_id]
        record["reward"] = reward
        record["time"] = self._clock_s - self._starts_s[env_id]
        record["step"] = self._step_clock - self._first_steps[env_id]
        self.restart(env_id)
        return record

    def restart(self, env_id: int) -> None:
        """Count from zero."""
        self._first_steps[env_id] = self._step_clock
        self._starts_s[env_id] = self._clock_s
        self._records[env_id] = _new_record()


def _new_record() -> dict[str, Any]:
    return {"reward": 0.0, "time": 0.0, "step": 0, "train_sample": 0}
