"""One vector step of policy and env manager, with each timestep joined to the observation and output that caused it."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ding.data import EnvBatch, TimestepBatch, is_batched
from ding.data.columns import Columns, concat, map_leaves, take
from ding.torch_utils import to_ndarray, to_tensor

_NO_IDS = np.zeros(0, dtype=np.int64)
_NOTHING: tuple[Mapping[int, Any], Mapping[int, Any]] = ({}, {})


class VectorStep(NamedTuple):
    """A vector step; all three have the same env ids in the same order."""

    obs: Mapping[int, Any]
    output: Mapping[int, Any]
    timesteps: TimestepBatch

    def take(self, positions: np.ndarray) -> "VectorStep":
        """The rows at these positions."""
        timesteps = self.timesteps.take(positions)
        return VectorStep(_rows(self.obs, timesteps.env_ids), _rows(self.output, timesteps.env_ids), timesteps)


class Rollout:
    """Steps an env manager with a policy.

    Environments of an asynchronous manager answer when they are ready, so that a timestep may belong to the
    observation of an earlier call; what was sent to an environment is remembered until its timestep arrives.

    Args:
        env: env manager.
        policy: collect mode of a policy.
        transform_obs: hand float32 tensors to the policy; what is joined to the timesteps stays as the manager gave it.
        copy_obs: keep copies of the observations (for managers that write into arrays which they handed out).
    """

    def __init__(self, env: Any, policy: Any, transform_obs: bool = False, copy_obs: bool = False) -> None:
        self._env = env
        self._policy = policy
        self._transform_obs = transform_obs
        self._copy_obs = copy_obs
        self._batched_forward = is_batched(policy.forward)
        self._pending = _Pending()
        self._sent = _NOTHING

    def step(self, policy_kwargs: dict[str, Any], allowed: "set[int] | None" = None) -> VectorStep:
        """Forward the ready observations (of the ``allowed`` environments), step, and return what came back."""
        actions = self.infer(self._env.ready_obs, policy_kwargs, allowed)
        return self.join(self._env.step(actions))

    def infer(self, obs: Any, policy_kwargs: dict[str, Any], allowed: "set[int] | None" = None) -> Mapping[int, Any]:
        """The first half of :meth:`step`: the policy's actions for ``obs``; what they answer to is remembered."""
        if allowed is not None:
            obs = _select(obs, allowed)
        return _actions(self.outputs(obs, policy_kwargs), isinstance(obs, EnvBatch))

    def outputs(self, obs: Any, policy_kwargs: dict[str, Any]) -> Mapping[int, Any]:
        """The policy's outputs for ``obs``; both are remembered for :meth:`join`.

        Raises:
            ValueError: the policy answers for fewer environments than it was asked for.
        """
        if self._copy_obs:
            obs = copy.deepcopy(obs)
        seen = _float_tensors(obs) if self._transform_obs else obs
        output = self._forward(seen, policy_kwargs)
        if len(output) < len(obs):
            missing = sorted(set(obs) - set(output))
            raise ValueError(f"policy.forward gave no output for the envs {missing}; it must answer for each")
        # What becomes a transition is what the environment gave, so that obs and next_obs are of one dtype.
        self._sent = (obs, output)
        return output

    def join(self, timesteps: Mapping[int, Any]) -> VectorStep:
        """The second half of :meth:`step`: the timesteps beside what the environments were sent."""
        (obs, output), self._sent = self._sent, _NOTHING
        return self._pending.join(obs, output, TimestepBatch.from_dict(timesteps))

    def _forward(self, obs: Any, policy_kwargs: dict[str, Any]) -> Mapping[int, Any]:
        if self._batched_forward:
            return self._policy.forward(obs if type(obs) is EnvBatch else EnvBatch.from_dict(obs), **policy_kwargs)
        return self._policy.forward(obs.to_dict() if isinstance(obs, EnvBatch) else obs, **policy_kwargs)

    def forget(self, env_ids: "list[int] | None" = None) -> None:
        """Forget what was sent to these environments (``None``: all)."""
        self._pending.forget(env_ids)


def drop_abnormal(step: VectorStep) -> tuple[VectorStep, np.ndarray]:
    """Leave out the timesteps whose info says ``abnormal``; returns the rest and the ids of those environments."""
    timesteps = step.timesteps
    if not timesteps.infos:
        return step, _NO_IDS
    abnormal = [position for position, info in timesteps.infos.items() if info.get("abnormal", False)]
    if not abnormal:
        return step, _NO_IDS
    kept = np.setdiff1d(np.arange(len(timesteps)), abnormal)
    return step.take(kept), timesteps.env_ids[sorted(abnormal)]


def _ids(mapping: Mapping[int, Any]) -> np.ndarray:
    if isinstance(mapping, EnvBatch):
        return mapping.env_ids
    return np.fromiter(mapping.keys(), dtype=np.int64, count=len(mapping))


def _select(mapping: Mapping[int, Any], allowed: set[int]) -> Mapping[int, Any]:
    if not isinstance(mapping, EnvBatch):
        return {env_id: value for env_id, value in mapping.items() if env_id in allowed}
    positions = [i for i, env_id in enumerate(mapping.env_ids.tolist()) if env_id in allowed]
    if len(positions) == len(mapping):
        return mapping
    return mapping.take(np.array(positions, dtype=np.int64))


def _rows(mapping: Mapping[int, Any], env_ids: np.ndarray) -> Mapping[int, Any]:
    if isinstance(mapping, EnvBatch):
        return mapping.take(np.array([mapping.position(env_id) for env_id in env_ids.tolist()], dtype=np.int64))
    return {env_id: mapping[env_id] for env_id in env_ids.tolist()}


def _float_tensors(obs: Mapping[int, Any]) -> Mapping[int, Any]:
    if isinstance(obs, EnvBatch):
        columns = to_tensor(obs.columns, dtype=torch.float32)
        return EnvBatch.unchecked(obs.env_ids, columns)
    return to_tensor(obs, dtype=torch.float32)


def _actions(output: Mapping[int, Any], speaks_batches: bool) -> Mapping[int, Any]:
    """The actions as arrays: an ``EnvBatch`` for a manager that speaks it, else a plain dict."""
    if not isinstance(output, EnvBatch):
        return {env_id: to_ndarray(row["action"]) for env_id, row in output.items()}
    column = output.field("action").columns
    batch = EnvBatch.unchecked(
        output.env_ids, map_leaves(_array, column) if isinstance(column, dict) else _array(column)
    )
    return batch if speaks_batches else batch.to_dict()


def _array(leaf: Any) -> Any:
    return leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf


class _Pending:
    """What was sent to the environments, until their timesteps arrive."""

    def __init__(self) -> None:
        self._chunks: dict[int, tuple[Mapping[int, Any], Mapping[int, Any]]] = {}

    def join(self, obs: Mapping[int, Any], output: Mapping[int, Any], timesteps: TimestepBatch) -> VectorStep:
        env_ids = timesteps.env_ids
        if not self._chunks and _has_ids(obs, env_ids) and _has_ids(output, env_ids):
            return VectorStep(obs, output, timesteps)
        for env_id in obs:
            self._chunks[env_id] = (obs, output)
        senders = [(env_id, *self._chunks.pop(env_id)) for env_id in env_ids.tolist()]
        return VectorStep(_gather(env_ids, senders, 1), _gather(env_ids, senders, 2), timesteps)

    def forget(self, env_ids: "list[int] | None") -> None:
        if env_ids is None:
            self._chunks.clear()
        else:
            for env_id in env_ids:
                self._chunks.pop(env_id, None)


def _has_ids(mapping: Mapping[int, Any], env_ids: np.ndarray) -> bool:
    ids = _ids(mapping)
    return ids is env_ids or (len(ids) == len(env_ids) and bool((ids == env_ids).all()))


def _gather(env_ids: np.ndarray, senders: list[tuple], field: int) -> Mapping[int, Any]:
    """Rows of several batches, in the order of ``env_ids``."""
    if not all(isinstance(sender[field], EnvBatch) for sender in senders):
        return {sender[0]: sender[field][sender[0]] for sender in senders}
    by_batch: dict[int, tuple[EnvBatch, list[int]]] = {}
    for slot, sender in enumerate(senders):
        by_batch.setdefault(id(sender[field]), (sender[field], []))[1].append(slot)
    parts: list[Columns] = []
    order: list[int] = []
    for batch, slots in by_batch.values():
        rows = np.array([batch.position(senders[slot][0]) for slot in slots], dtype=np.int64)
        parts.append(take(batch.columns, rows))
        order.extend(slots)
    back = np.argsort(np.array(order, dtype=np.int64))
    return EnvBatch.unchecked(env_ids, take(concat(parts), back) if len(parts) > 1 else take(parts[0], back))
