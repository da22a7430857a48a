"""Env manager whose observations and rewards the run normalises."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ding.data import EnvBatch, TimestepBatch
from ding.data.env_batch import is_abnormal
from ding.data.roles import EnvManager
from ding.envs.env.state import EnvStateError
from ding.rl_utils.normalization import Normalization, Norms


class NormalizedEnvManager:
    """Manager in which the wrappers ``obs_norm`` and ``reward_norm`` of all envs share the statistics of the run.

    The envs return raw values; this class updates the statistics and normalises the values of all envs at once. Apart
    from first observations, the observations that wait for an action are those returned by the previous step. For an
    evaluator the statistics are constant, and the rewards are those of the env.

    All other attributes are the manager's.

    Args:
        manager: Manager with the v1 interface and deferred norms.
        norms: Quantities to normalise.
    """

    def __init__(self, manager: EnvManager, norms: Norms) -> None:
        self._manager: Any = manager
        self._norms = norms
        self._reads_only = False
        # Used until the policy's statistics are set.
        self._statistics = Normalization()
        self._statistics.activate(norms)
        count = manager.env_num
        # Latest observation of each env, raw (NaN: none) and as returned.
        self._raw: np.ndarray | None = None
        self._newest: np.ndarray | None = None
        self._returns = np.zeros(count)

    def use(self, statistics: Normalization, reads_only: bool) -> None:
        """Use the statistics of a policy.

        Args:
            reads_only: Whether the policy evaluates.

        Raises:
            ValueError: The statistics belong to observations of another shape.
        """
        if statistics is not self._statistics:
            statistics.activate(self._norms)
            self._statistics = statistics
        self._reads_only = reads_only

    @property
    def _updates(self) -> bool:
        return self._statistics.learns and not self._reads_only

    @property
    def ready_obs(self) -> EnvBatch:
        """Observations of the envs that wait for an action: an ``EnvBatch`` env id -> observation."""
        batch: EnvBatch = self._manager.ready_obs
        if not len(batch) or self._norms.obs_shape is None:
            return batch
        raw = np.asarray(batch.columns)
        if self._reads_only:
            return EnvBatch.unchecked(batch.env_ids, self._statistics.normalized_obs(raw))
        kept, newest = self._kept(raw)
        ids = batch.env_ids
        first = (raw != kept[ids]).reshape(len(raw), -1).any(axis=1)
        if np.count_nonzero(first):
            rows, raw = ids[first], raw[first]
            if self._updates:
                self._statistics.update_obs(self._newest_frame(raw))
            kept[rows], newest[rows] = raw, self._statistics.normalized_obs(raw)
            self._returns[rows] = 0.0
        return EnvBatch.unchecked(ids, newest[ids])

    def _newest_frame(self, obs: np.ndarray) -> np.ndarray:
        """Return the new part of observations ``[N, *obs_shape]``, or of stacks ``[N, frames, *obs_shape]``."""
        assert self._norms.obs_shape is not None
        newest: tuple[slice | int, ...] = (slice(None), *[-1] * (obs.ndim - 1 - len(self._norms.obs_shape)))
        values: np.ndarray = obs[newest]
        return values

    def _kept(self, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._raw is None or self._newest is None:
            shape = (self._manager.env_num, *obs.shape[1:])
            self._raw, self._newest = np.full(shape, np.nan, obs.dtype), np.zeros(shape, np.float32)
        return self._raw, self._newest

    def step(self, actions: Mapping[int, Any]) -> TimestepBatch:
        """Step each of the given envs once; see the manager's ``step``."""
        batch: TimestepBatch = self._manager.step(actions)
        if not len(batch):
            return batch
        obs, reward = batch.obs, batch.reward
        if self._norms.obs_shape is not None:
            obs = self._stepped_obs(batch)
        if self._norms.reward_discount is not None and not self._reads_only:
            reward = self._stepped_reward(batch, self._norms.reward_discount)
        return TimestepBatch.unchecked_timesteps(batch.env_ids, obs, reward, batch.done, batch.truncated, batch.infos)

    def _stepped_obs(self, batch: TimestepBatch) -> np.ndarray:
        raw, statistics = np.asarray(batch.obs), self._statistics
        if self._updates:
            statistics.update_obs(self._newest_frame(raw[_sound(batch)] if batch.infos else raw))
        obs = statistics.normalized_obs(raw)
        if not self._reads_only:
            kept, newest = self._kept(raw)
            kept[batch.env_ids], newest[batch.env_ids] = raw, obs
            if np.count_nonzero(batch.done):
                kept[batch.env_ids[batch.done]] = np.nan
        return obs

    def _stepped_reward(self, batch: TimestepBatch, discount: float) -> np.ndarray:
        ids, paid = batch.env_ids, np.asarray(batch.reward)
        returns = self._returns[ids] * discount + paid.reshape(len(ids))
        if self._updates:
            self._statistics.update_returns(returns[_sound(batch)] if batch.infos else returns)
        returns[batch.done] = 0.0
        self._returns[ids] = returns
        return self._statistics.scaled_reward(paid)

    # life cycle

    def launch(self, reset_param: Any = None) -> None:
        self._forget()
        self._manager.launch(reset_param)

    def relaunch(self) -> None:
        self._forget()
        self._manager.relaunch()

    def reset(self, reset_param: Any = None) -> None:
        self._forget(None if reset_param is None else list(reset_param))
        self._manager.reset(reset_param)

    def _forget(self, env_ids: Sequence[int] | None = None) -> None:
        rows = slice(None) if env_ids is None else list(env_ids)
        self._returns[rows] = 0.0
        if self._raw is not None:
            self._raw[rows] = np.nan

    def get_state(self) -> list[Any]:
        """See :meth:`ding.envs.env.state.HasEnvStates.get_state`."""
        get_state = getattr(type(self._manager), "get_state", None)
        if get_state is None:
            raise EnvStateError(f"{type(self._manager).__name__} cannot save the states of its envs")
        states = []
        for env_id, env in enumerate(get_state(self._manager)):
            seen = None
            if self._raw is not None and self._newest is not None and not _is_unknown(self._raw[env_id]):
                seen = {"raw": self._raw[env_id].copy(), "obs": self._newest[env_id].copy()}
            states.append({"env": env, "normalized": seen, "return": float(self._returns[env_id])})
        return states

    def set_state(self, states: Sequence[Any]) -> None:
        """See :meth:`ding.envs.env.state.HasEnvStates.set_state`."""
        if not all("normalized" in state for state in states):
            raise EnvStateError("the saved envs normalised by themselves, with statistics of their own")
        self._manager.set_state([state["env"] for state in states])
        self._forget()
        for env_id, state in enumerate(states):
            self._returns[env_id] = state["return"]
            if state["normalized"] is not None:
                raw, obs = np.asarray(state["normalized"]["raw"]), state["normalized"]["obs"]
                kept, newest = self._kept(raw[None])
                kept[env_id], newest[env_id] = raw, obs

    def __getattr__(self, name: str) -> Any:
        if name == "_manager":  # not created yet
            raise AttributeError(name)
        return getattr(self._manager, name)


def _is_unknown(row: np.ndarray) -> bool:
    return bool(np.isnan(row).any())


def _sound(batch: TimestepBatch) -> np.ndarray:
    """Return which timesteps are not abnormal, bool ``[N]``."""
    sound = np.ones(len(batch), dtype=np.bool_)
    sound[[position for position, info in batch.infos.items() if is_abnormal(info)]] = False
    return sound
