"""EnvPool's asynchronous mode: the pool answers for the first of its envs that are ready.

EnvPool returns exactly ``batch_size`` results, and blocks forever if fewer envs are busy. Missing results are therefore
filled up with idle envs, whose results are dropped.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Answers(NamedTuple):
    """Results of ``N`` envs; all fields but ``env_ids`` (int64 ``[N]``) and ``was_reset`` are those of a pool's step.

    ``was_reset`` (bool ``[N]``): the observation is the first one of an episode, and the other fields are meaningless.
    """

    env_ids: np.ndarray
    was_reset: np.ndarray
    obs: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, Any]

    def take(self, rows: np.ndarray) -> "Answers":
        """Return some of the rows; the infos stay those of all."""
        env_ids, was_reset, obs, reward, terminated, truncated = (part[rows] for part in self[:-1])
        return Answers(env_ids, was_reset, obs, reward, terminated, truncated, self.infos)


class PoolBatches:
    """Orders to the envs of a pool, and their answers.

    Args:
        pool: Pool of EnvPool, with ``env_type='gymnasium'``.
        num_envs: Number of its envs.
        batch_size: Number of answers that it returns at a time.
    """

    def __init__(self, pool: Any, num_envs: int, batch_size: int) -> None:
        self._pool = pool
        self._num_envs = num_envs
        self._batch_size = batch_size
        self._at_work: set[int] = set()
        self._fillers: set[int] = set()
        # Envs that are resetting after an episode.
        self._resetting: set[int] = set()

    @property
    def is_busy(self) -> bool:
        """Whether an answer that is not dropped is pending."""
        return len(self._at_work) > len(self._fillers)

    def send(self, env_ids: np.ndarray, actions: np.ndarray) -> None:
        """Order a step of each of these idle envs."""
        self._pool.send(actions, env_ids.astype(np.int32))
        self._at_work.update(env_ids.tolist())

    def send_resets(self, env_ids: Sequence[int]) -> None:
        """Order resets of envs whose game is over."""
        self._resetting.update(env_ids)
        self._send_anything(env_ids)

    def _send_anything(self, env_ids: Sequence[int]) -> None:
        """Order steps with an arbitrary action: a pool treats the first step after a game as a reset."""
        space = self._pool.single_action_space
        self.send(np.array(env_ids), np.zeros((len(env_ids), *space.shape), space.dtype))

    def receive(self, idle: Sequence[int]) -> Answers:
        """Wait for the next answers.

        Args:
            idle: Envs that may be stepped to fill up a batch; at least as many as are missing.
        """
        fillers = [env_id for env_id in idle if env_id not in self._at_work][: self._missing()]
        if fillers:
            self._fillers.update(fillers)
            self._send_anything(fillers)
        obs, reward, terminated, truncated, infos = self._pool.recv()
        env_ids = infos["env_id"].astype(np.int64)
        ids = env_ids.tolist()
        self._at_work.difference_update(ids)
        was_reset = np.array([env_id in self._resetting for env_id in ids])
        self._resetting.difference_update(ids)
        answers = Answers(env_ids, was_reset, obs, reward, terminated, truncated, infos)
        if self._fillers.isdisjoint(ids):
            return answers
        rows = np.array([row for row, env_id in enumerate(ids) if env_id not in self._fillers], dtype=np.int64)
        self._fillers.difference_update(ids)
        infos = {key: value[rows] for key, value in infos.items() if isinstance(value, np.ndarray)}
        return answers.take(rows)._replace(infos=infos)

    def _missing(self) -> int:
        return max(0, self._batch_size - len(self._at_work))

    def reset_all(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset all envs, whatever their state; return their observations ``[num_envs, ...]``, and infos with lives.

        All envs are reset equally often, as often as whole batches require, so that the first observations do not
        depend on which env was first.
        """
        everyone = range(self._num_envs)
        while self._at_work:
            self.receive(everyone)
        self._fillers.clear()
        self._resetting.clear()
        self._pool.async_reset()
        self._at_work.update(everyone)
        ordered = dict.fromkeys(everyone, 1)
        rows: dict[int, Any] = {}
        lives = np.zeros(self._num_envs, dtype=np.int32)
        while self._at_work or len(set(ordered.values())) > 1:
            idle = sorted(set(everyone) - self._at_work, key=lambda env_id: ordered[env_id])
            again = idle[: self._missing()]
            for env_id in again:
                ordered[env_id] += 1
            self._at_work.update(again)
            obs, infos = self._pool.reset(np.array(again, dtype=np.int32)) if again else self._received_reset()
            self._at_work.difference_update(infos["env_id"].tolist())
            rows.update(zip(infos["env_id"].tolist(), obs))
            lives[infos["env_id"]] = infos.get("lives", 0)
        return np.stack([rows[env_id] for env_id in everyone]), {"lives": lives}

    def _received_reset(self) -> tuple[np.ndarray, dict[str, Any]]:
        obs, *_, infos = self._pool.recv()
        return obs, infos
