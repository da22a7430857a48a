"""The vector steps of an evaluation.

Exceptions::

    EvaluationError (RuntimeError)    an evaluation that cannot come to an end
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.data import EnvBatch, TimestepBatch, is_batched
from ding.data.columns import map_leaves
from ding.torch_utils import to_ndarray, to_tensor
from ding.worker.collector._eval_monitor import VectorEvalMonitor

# Broken episodes of one env in a row after which the evaluation gives up instead of going on for ever.
MAX_ABNORMAL_IN_A_ROW = 100


class EvaluationError(RuntimeError):
    """An evaluation that cannot come to an end."""


class EvalRunner(ABC):
    """Steps the envs that still have episodes to play.

    An env that reports ``info['abnormal']`` is reset, and its episode does not count.

    Args:
        env: env manager, reset before.
        policies: eval modes of the policies.
        monitor: tells which envs have played their share.

    Attributes:
        num_env_steps: env steps so far, without abnormal ones.
    """

    def __init__(self, env: Any, policies: list[Any], monitor: VectorEvalMonitor) -> None:
        self._env = env
        self._policies = policies
        self._monitor = monitor
        self._num_abnormal: dict[int, int] = {}
        self._retired: set[int] = set()
        self._pending: set[int] = set()
        # Such a manager cannot leave out the envs that have played their share: what they do is ignored.
        self._steps_together = bool(getattr(env, "steps_together", False))
        self.num_env_steps = 0

    def step(self) -> list[tuple[int, Any]]:
        """One vector step: ``(env id, info)`` of each episode that ended and counts."""
        obs = self._active(self._env.ready_obs)
        if not len(obs) and not self._pending:
            self._revive()
            return []
        timesteps = self._env.step(self._act(obs) if len(obs) else {})
        # An asynchronous manager may answer for an env in a later step than the one with its action.
        if self._pending or len(timesteps) != len(obs):
            self._pending.update(obs)
            self._pending.difference_update(timesteps)
        if isinstance(timesteps, TimestepBatch):
            return self._read_batch(timesteps)
        return self._read_rows(timesteps)

    def _revive(self) -> None:
        """Reset the envs that have episodes to play but wait for nothing.

        They are at the end of the manager's ``episode_num``, are not reset by it, or are still about to be.
        """
        self._env.reset({env_id: None for env_id in range(self._env.env_num) if not self._monitor.is_full(env_id)})

    def finished(self, env_id: int) -> None:
        """The episode of this env was noted: clear what the policies remember of it."""
        self._num_abnormal.pop(env_id, None)
        if self._monitor.is_full(env_id):
            self._retired.add(env_id)
        for policy in self._policies:
            policy.reset([env_id])

    @abstractmethod
    def _act(self, obs: Mapping[int, Any]) -> Mapping[int, Any]:
        """Actions for the given observations, in the form that the manager takes."""

    def _active(self, obs: Mapping[int, Any]) -> Mapping[int, Any]:
        """The observations of the envs that have not played their share."""
        retired = self._retired
        if not retired or self._steps_together:
            return obs
        if not isinstance(obs, EnvBatch):
            return {env_id: value for env_id, value in obs.items() if env_id not in retired}
        positions = [i for i, env_id in enumerate(obs.env_ids.tolist()) if env_id not in retired]
        return obs if len(positions) == len(obs) else obs.take(np.array(positions, dtype=np.int64))

    def _read_batch(self, timesteps: TimestepBatch) -> list[tuple[int, Any]]:
        """Look at the flags of all envs at once, and only at the infos there are."""
        abnormal = {i for i, info in timesteps.infos.items() if is_abnormal(info)} if timesteps.infos else set()
        env_ids = timesteps.env_ids
        if not abnormal and not np.count_nonzero(timesteps.done):
            self.num_env_steps += self._num_counted(env_ids)
            return []
        self.num_env_steps += self._num_counted(np.delete(env_ids, list(abnormal)))
        for position in abnormal:
            self._restart(int(env_ids[position]))
        ended = [i for i in np.flatnonzero(timesteps.done).tolist() if i not in abnormal]
        found = [(int(env_ids[i]), timesteps.info_at(i)) for i in ended]
        return [(env_id, info) for env_id, info in found if env_id not in self._retired]

    def _num_counted(self, env_ids: np.ndarray) -> int:
        """How many of these envs have episodes to play (a manager may step the others along)."""
        if not self._steps_together or not self._retired:
            return len(env_ids)
        return sum(env_id not in self._retired for env_id in env_ids.tolist())

    def _read_rows(self, timesteps: Mapping[int, Any]) -> list[tuple[int, Any]]:
        ended = []
        for env_id, timestep in timesteps.items():
            if env_id in self._retired:
                continue
            if is_abnormal(timestep.info):
                self._restart(env_id)
                continue
            self.num_env_steps += 1
            if timestep.done:
                ended.append((env_id, timestep.info))
        return ended

    def _restart(self, env_id: int) -> None:
        """Begin the episode of a broken env anew."""
        if env_id in self._retired:
            return
        count = self._num_abnormal.get(env_id, 0) + 1
        if count > MAX_ABNORMAL_IN_A_ROW:
            raise EvaluationError(
                f"env {env_id} reported {count} abnormal episodes in a row; the evaluation cannot end"
            )
        self._num_abnormal[env_id] = count
        self._pending.discard(env_id)
        self._env.reset({env_id: None})
        self._monitor.drop_video(env_id)
        for policy in self._policies:
            policy.reset([env_id])


class SoloRunner(EvalRunner):
    """One policy, in columns when its forward is batched, else with one dict per env.

    Args:
        env, policy, monitor: see :class:`EvalRunner`.
        policy_kwargs: keyword arguments of ``policy.forward``.
    """

    def __init__(self, env: Any, policy: Any, monitor: VectorEvalMonitor, policy_kwargs: dict[str, Any]) -> None:
        super().__init__(env, [policy], monitor)
        self._forward = policy.forward
        self._batched = is_batched(policy.forward)
        self._policy_kwargs = policy_kwargs

    def _act(self, obs: Mapping[int, Any]) -> Mapping[int, Any]:
        if isinstance(obs, EnvBatch):
            obs = EnvBatch.unchecked(obs.env_ids, to_tensor(obs.columns, dtype=torch.float32))
            output = self._forward(obs if self._batched else obs.to_dict(), **self._policy_kwargs)
        else:
            output = self._forward(to_tensor(obs, dtype=torch.float32), **self._policy_kwargs)
        if isinstance(output, EnvBatch):
            actions = output.field("action")
            return EnvBatch.unchecked(actions.env_ids, map_leaves(to_ndarray, actions.columns))
        return {env_id: to_ndarray(row["action"]) for env_id, row in output.items()}


class BattleRunner(EvalRunner):
    """Several policies in the same env: policy ``i`` sees ``obs[i]`` and gives action ``i`` of each env."""

    def _act(self, obs: Mapping[int, Any]) -> Mapping[int, Any]:
        rows = dict(obs)
        outputs = [
            policy.forward({env_id: to_tensor(row[i], dtype=torch.float32) for env_id, row in rows.items()})
            for i, policy in enumerate(self._policies)
        ]
        return {env_id: [to_ndarray(output[env_id]["action"]) for output in outputs] for env_id in rows}


def is_abnormal(info: Any) -> bool:
    """Whether an info dict, or that of any player, says that the env broke."""
    if isinstance(info, Mapping):
        return bool(info.get("abnormal", False))
    return isinstance(info, (list, tuple)) and any(is_abnormal(item) for item in info)


def episode_return_of(info: Any, env_id: int) -> Any:
    """``info['eval_episode_return']`` of an episode that ended.

    Raises:
        KeyError: the env did not report it.
    """
    if not isinstance(info, Mapping) or "eval_episode_return" not in info:
        raise KeyError(
            f"env {env_id} ended an episode without info['eval_episode_return']: "
            "add the wrapper EvalEpisodeReturnWrapper ('eval_episode_return'), or set it in the step of the env"
        )
    return info["eval_episode_return"]
