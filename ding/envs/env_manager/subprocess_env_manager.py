"""Env managers that run each env in a process of its own.

Observations, rewards, flags and actions of fixed shape travel through anonymous shared memory; a step costs one
small message to each worker and one back. The modules behind: ``_subprocess_worker`` (the child),
``_subprocess_process`` and ``_subprocess_engine`` (orders and events), ``_subprocess_manager`` (resets, faults),
``_subprocess_results`` and ``_shm_columns`` (data). They need POSIX descriptors, so there is no Windows.
"""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.data import EnvBatch, SchemaError, TimestepBatch
from ding.data.columns import Columns, iter_leaves, map_leaves
from ding.envs.env_manager._errors import EnvDataError
from ding.envs.env_manager._lifecycle import EnvState
from ding.envs.env_manager._shm_columns import RowSchema, SharedColumns
from ding.envs.env_manager._subprocess_manager import SubprocessManagerBase
from ding.envs.env_manager._subprocess_results import find_nan
from ding.envs.env_manager._v2 import ListStepMixin
from ding.utils import ENV_MANAGER_REGISTRY

logger = logging.getLogger(__name__)

__all__ = ["AsyncSubprocessEnvManager", "SubprocessEnvManagerV2", "SyncSubprocessEnvManager"]


def _as_array(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf


class _SteppingManager(SubprocessManagerBase):
    """How actions reach the workers and timesteps the caller."""

    def _forget_all(self) -> None:
        super()._forget_all()
        self._actions: SharedColumns | None = None
        self._action_schema: RowSchema | None = None
        self._action_leaves: list[np.ndarray] = []

    def _order_steps(self, batch: EnvBatch, raw_tensors: bool) -> list[int]:
        """Send one action to each of these envs and return their ids; ``raw_tensors`` reach the env as tensors."""
        env_ids: list[int] = batch.env_ids.tolist()
        if batch.env_ids is not self._life.ready_array:
            self._life.check_running(env_ids)
        busy = self._stepping or self._answered or self._inplace
        if busy and not (self._stepping | self._answered | self._inplace).isdisjoint(env_ids):
            raise AssertionError(f"some of the envs {env_ids} cannot be stepped: their last step is not handed out")
        self._stepping.update(env_ids)
        if self._lost:
            batch = self._without_lost(batch)
        if len(batch):
            self._send_actions(batch, raw_tensors)
        return env_ids

    def _without_lost(self, batch: EnvBatch) -> EnvBatch:
        """Let the steps of envs fail that were lost since their last one; the actions of the others."""
        for env_id in self._lost.keys() & self._stepping:
            self._step_failed(env_id, self._lost.pop(env_id))
        rest = [position for position, env_id in enumerate(batch.env_ids.tolist()) if env_id in self._stepping]
        return batch if len(rest) == len(batch) else batch.take(np.array(rest, dtype=np.int64))

    def _send_actions(self, batch: EnvBatch, raw_tensors: bool) -> None:
        schema = columns = None
        if self._store.shared:
            try:
                columns = batch.columns if raw_tensors else map_leaves(_as_array, batch.columns)
            except SchemaError:
                logger.debug("actions of different shapes are sent one by one")
            else:
                schema = self._schema_of(columns)
        if schema is None or columns is None:
            for env_id, action in batch.items():
                self._engine.step_object(env_id, action)
            return
        self._write_actions(columns, schema, batch.env_ids)
        self._engine.step(batch.env_ids.tolist())

    def _schema_of(self, columns: Columns) -> RowSchema | None:
        known = self._action_schema
        if known is not None and isinstance(columns, np.ndarray) and len(known.leaves) == 1:
            leaf = self._action_leaves[0]
            kind = "array" if columns.ndim > 1 else "scalar"
            same = columns.dtype == leaf.dtype and columns.shape[1:] == leaf.shape[1:]
            if same and known.leaves[0].kind == kind and not known.leaves[0].path:
                return known
        return RowSchema.of_columns(columns)

    def _write_actions(self, columns: Columns, schema: RowSchema, ids: np.ndarray) -> None:
        if schema != self._action_schema:
            # The memory of another schema goes to the workers before the order that needs it, on the same pipe.
            self._actions = SharedColumns(schema.prefixed("action"), self._env_num)
            self._action_schema = schema
            self._action_leaves = self._actions.arrays
            self._engine.attach("actions", self._actions)
        for array, (_, leaf) in zip(self._action_leaves, iter_leaves(columns)):
            array[ids] = _as_array(leaf)

    def _hand_out(self, env_ids: list[int], ids: np.ndarray) -> TimestepBatch:
        """The timesteps of envs that answered."""
        self._answered.difference_update(env_ids)
        replaced = self._inplace.intersection(env_ids) if self._inplace else set()
        self._inplace -= replaced
        batch = self._store.timesteps(env_ids, ids, replaced)
        if not self._check_data:
            return batch
        for name, columns in (("observation", batch.obs), ("reward", batch.reward)):
            bad = find_nan(columns)
            if bad is not None:
                env_id = env_ids[bad]
                seed = self._life.last_seeds[env_id]
                self._give_up(EnvDataError(f"Env {env_id} returned bad data: NaN in the {name}", env_id, seed))
        return batch

    def step_batch(self, actions: "Mapping[int, Any] | EnvBatch") -> TimestepBatch:
        """What :meth:`step` does, whatever form that has."""
        raise NotImplementedError

    def step(self, actions: "Mapping[int, Any] | EnvBatch") -> Any:
        """Do one step in each of the given envs; see :meth:`step_batch`."""
        return self.step_batch(actions)

    def _ready(self) -> list[int]:
        """Ids of the envs that wait for an action."""
        busy = self._stepping | self._answered
        ready = self._life.ready_ids
        return [env_id for env_id in ready if env_id not in busy] if busy else ready

    def _settle(self) -> None:
        """Let resets come in, as far as :attr:`ready_obs` waits for them."""
        raise NotImplementedError

    @property
    def ready_obs_id(self) -> list[int]:
        """Ids of the envs that wait for an action. Waits like :attr:`ready_obs`."""
        if self._closed:
            return []
        self._settle()
        return list(self._ready())

    @property
    def ready_obs(self) -> Any:
        """Observations of the envs that wait for an action: an ``EnvBatch`` env id -> observation."""
        return self.ready_batch

    @property
    def ready_batch(self) -> EnvBatch:
        """The observations of the envs that wait for an action, as columns, whatever form :attr:`ready_obs` has."""
        self._check_open()
        self._settle()
        env_ids = self._ready()
        ids = self._life.ready_array
        if len(ids) != len(env_ids):
            ids = np.array(env_ids, dtype=np.int64)
        return self._store.observations(env_ids, ids)


@ENV_MANAGER_REGISTRY.register("async_subprocess")
class AsyncSubprocessEnvManager(_SteppingManager):
    """One process per env; a step returns as soon as some of the envs have answered.

    A slow env does not hold up the others: its timestep comes with a later call. ``ready_obs`` leaves out the envs
    that are being stepped or reset, and blocks while every env that has episodes left is resetting.

    Args:
        env_fn: one callable without arguments per env.
        cfg: manager config, see :attr:`config`.
    """

    config: dict[str, Any] = {
        **SubprocessManagerBase.config,
        # A step returns when so many envs have answered ...
        "wait_num": 2,
        # ... and so many seconds are over; None waits for all.
        "step_wait_timeout": 0.01,
    }

    def _read_config(self) -> None:
        super()._read_config()
        self._wait_num = self._cfg.wait_num
        self._step_wait_timeout = self._cfg.step_wait_timeout
        if not self._wait_num >= 1:
            raise ValueError(f"env.manager.wait_num must be 1 or more, not {self._wait_num!r}")

    @property
    def ready_env(self) -> list[int]:
        """Ids of the envs that wait for an action."""
        return self.ready_obs_id

    def _settle(self) -> None:
        if self._resetting:
            self._pump(0.0)
            self._pump_while(self._only_resetting)

    def _only_resetting(self) -> bool:
        if not self._resetting:
            return False
        others = (EnvState.RUN, EnvState.INIT)
        return not any(state in others for state in self._life.states)

    def step_batch(self, actions: "Mapping[int, Any] | EnvBatch") -> TimestepBatch:
        """Send actions, wait for some answers, and return all that there are.

        Args:
            actions: env id -> action, for envs of :attr:`ready_obs`. May be empty while steps are under way.

        Returns:
            The timesteps of at least ``wait_num`` envs, ids ascending, possibly of envs stepped by an earlier call.
            It waits on while all of them ended their episode and others are still to answer.

        Raises:
            AssertionError: the manager is closed, or an env is not in state RUN.
            ValueError: no actions, and no step is under way.
            EnvManagerError: an env failed. The manager is closed.
        """
        self._check_open()
        start = time.monotonic()
        batch = actions if isinstance(actions, EnvBatch) else EnvBatch.from_dict(actions)
        if len(batch):
            self._order_steps(batch, raw_tensors=batch is not actions)
        if not (self._stepping or self._answered or self._inplace):
            raise ValueError("step() needs the action of at least one env: no step is under way")
        self._wait_for_some(start)
        env_ids = sorted(self._answered)
        return self._hand_out(env_ids, np.array(env_ids, dtype=np.int64))

    def _wait_for_some(self, start: float) -> None:
        waiting = len(self._stepping | self._answered | self._inplace)
        least = min(self._wait_num, waiting)
        while self._stepping or self._inplace - self._answered:
            timeout = None
            if self._step_wait_timeout is not None and len(self._answered) >= least and self._any_goes_on():
                timeout = start + self._step_wait_timeout - time.monotonic()
                if timeout <= 0:
                    self._pump(0.0)
                    return
            self._pump(timeout)

    def _any_goes_on(self) -> bool:
        return any(self._store.goes_on(env_id) for env_id in self._answered)


@ENV_MANAGER_REGISTRY.register("subprocess")
class SyncSubprocessEnvManager(_SteppingManager):
    """One process per env; a step returns the timesteps of exactly the given envs.

    ``ready_obs`` waits for the envs that are resetting, so that a run is reproducible.

    Args:
        env_fn: one callable without arguments per env.
        cfg: manager config, see :attr:`config`.
    """

    config: dict[str, Any] = {
        **SubprocessManagerBase.config,
        # Kept for configs that switch between the managers; a synchronous step waits for all.
        "wait_num": math.inf,
        "step_wait_timeout": None,
    }

    def _settle(self) -> None:
        while self._resetting:
            self._pump(None)

    def step_batch(self, actions: "Mapping[int, Any] | EnvBatch") -> TimestepBatch:
        """Send one action to each of the given envs and wait for all answers.

        Args:
            actions: env id -> action.

        Returns:
            The timesteps of these envs, in the order of ``actions``.

        Raises:
            AssertionError: the manager is closed, or an env is not in state RUN.
            ValueError: no actions.
            EnvManagerError: an env failed. The manager is closed.
        """
        self._check_open()
        batch = actions if isinstance(actions, EnvBatch) else EnvBatch.from_dict(actions)
        if not len(batch):
            raise ValueError("step() needs the action of at least one env")
        env_ids, ids = self._order_steps(batch, raw_tensors=batch is not actions), batch.env_ids
        while self._stepping or (self._inplace and not self._inplace <= self._answered):
            self._pump(None)
        return self._hand_out(env_ids, ids)


@ENV_MANAGER_REGISTRY.register("subprocess_v2")
class SubprocessEnvManagerV2(ListStepMixin, SyncSubprocessEnvManager):
    """:class:`SyncSubprocessEnvManager` in the second form: stacked observations, lists of actions and of trees."""

    ready_batch = SyncSubprocessEnvManager.ready_batch
    step_batch = SyncSubprocessEnvManager.step_batch
